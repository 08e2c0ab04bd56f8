import pytest

from evalframe.core.errors import BadRows, EmptyDataset, Faults
from evalframe.datasets.load import load_rows


@pytest.fixture
def table(tmp_path):
    def load(content, name="samples.csv"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return load_rows(tmp_path / name)

    return load


@pytest.mark.parametrize(
    ("content", "ideals", "lines"),
    [
        ("input,ideal\nx,1\ny,2\n", ["1", "2"], [2, 3]),
        ("\ufeffideal,input\r\n1,x\r\n2,y", ["1", "2"], [2, 3]),  # DAT-03
        ("ideal\r1\r2\r", ["1", "2"], [2, 3]),
        ('ideal\n"{""answer"": 1}"\n{"answer": 2}\n', ['{"answer": 1}', '{"answer": 2}'], [2, 3]),  # DAT-04
        ('ideal,x\n"a\nb\r\nc, d",1\n\n  \ne,2\n', ["a\nb\r\nc, d", "e"], [2, 7]),
        ("ideal\n\u2028a\u2029\n", ["\u2028a\u2029"], [2]),
        ("ideal\n" + "x" * 200_000 + "\n", ["x" * 200_000], [2]),  # longer than Python's csv takes by itself
        ("ideal,x\n,1\n", [""], [2]),
    ],
)
def test_cells_are_text(table, content, ideals, lines):
    rows = table(content)
    assert [row["ideal"] for row in rows] == ideals
    assert [rows.line_of(index) for index in range(len(rows))] == lines


def test_messages_in_a_cell_are_read(table):
    rows = table('input,ideal\n"[{""role"": ""user"", ""content"": ""hi""}]",[1]\n[1],"[{""a"": 1}]"\n')
    assert rows == [{"input": [{"role": "user", "content": "hi"}], "ideal": "[1]"}, {"input": "[1]", "ideal": '[{"a": 1}]'}]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("input,ideal\nx\n", ['samples.csv:2 has 1 of 2 cells; there is none for column "ideal"']),
        (
            'input,ideal\nx,y\nz,{"a": 1, "b": 2}\n',
            ['samples.csv:3 has 3 cells for 2 columns; a cell of column "ideal"', '"{""answer"": 2}"'],
        ),
        ('input,ideal\n{"a": 1, "b": 2},y\n', ['a cell of column "input"']),
        ('input,ideal\nx,"{"answer": 2}"\ny,z\n', ['samples.csv:2 column "ideal" goes on after its closing quote', '"{""answer"": 2}"']),
        ('input,ideal\n"a\nb","c"d\n', ['samples.csv:3 column "ideal" goes on after its closing quote']),
        ('input,ideal\nx,y\n"open,z\nu,v\n', ['samples.csv:3 column "input" opens a quote that is never closed']),
        ('input,"ideal\nx,y\n', ["samples.csv:1 cell 2 opens a quote"]),
        ('input,ideal\n"[{""role"": ]",x\n', ['samples.csv:2 column "input" begins like a list of messages, but is not JSON']),
        (b"input,ideal\nx,y\n\xc3\xa4\xff,z\n\xff\n", ["samples.csv:3:2 is not UTF-8: byte 0xff", "samples.csv:4:1", "UTF-8"]),
        ("input,,ideal\nx,y,z\n", ["samples.csv:1 names no column 2"]),
        ("ideal,ideal\nx,y\n", ["samples.csv:1 names twice: ideal"]),
        ("id,ideal\n1,x\n1,y\n", ['samples.csv:3 has the id "1", which line 2 has already']),
    ],
)
def test_faults_are_told_with_line_and_column(table, content, words):
    with pytest.raises(BadRows) as caught:
        table(content)
    for word in words:
        assert word in str(caught.value)


def test_all_faults_are_told(table):
    with pytest.raises(BadRows) as caught:
        table('input,ideal\nx\n"a"b,c\ngood,row\nx,y,z\n')
    for line in (2, 3, 5):
        assert f"samples.csv:{line} " in str(caught.value)
    assert "samples.csv:4" not in str(caught.value)
    with pytest.raises(Faults):
        table("id,ideal\nx\n1,a\n1,b\n")


@pytest.mark.parametrize("content", ["", "input,ideal\n", "\n\n"])
def test_a_table_without_rows_is_no_data(table, content):
    with pytest.raises(EmptyDataset):
        table(content)


def test_tabs_part_the_cells_of_a_tsv(table):
    assert table("input\tideal\na, b\tc\n", "samples.tsv") == [{"input": "a, b", "ideal": "c"}]
