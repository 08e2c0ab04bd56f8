import codecs
import copy
import gzip
import hashlib
import json
import math
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from evalframe.core.errors import BadRows, BadSample, DataError, EmptyDataset, EvalFailed, Faults, MissingData, NotData
from evalframe.datasets.jsonl import JsonlRows, whole_lines
from evalframe.datasets.load import get_jsonl, load_rows


@pytest.fixture
def file(tmp_path):
    def write(content, name="samples.jsonl"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return write


def refused(path, error=BadRows, **options):
    with pytest.raises(error) as caught:
        load_rows(path, **options)
    return str(caught.value).replace(f"{path.parent}/", "")


@pytest.mark.parametrize(
    ("content", "values", "lines"),
    [
        ('{"a": 1}\n{"a": 2}\n', [1, 2], [1, 2]),
        ('{"a": 1}\n{"a": 2}', [1, 2], [1, 2]),
        ('{"a": 1}\r\n{"a": 2}\r\n', [1, 2], [1, 2]),
        ('{"a": 1}\r{"a": 2}\r', [1, 2], [1, 2]),
        ('{"a": 1}\n\n   \n\t\x0b\x0c\n{"a": 2}\n\n', [1, 2], [1, 5]),
        ('\r\n\n{"a": 1}\n\u3000\n\r{"a": 2}', [1, 2], [3, 6]),
        (codecs.BOM_UTF8 + b'{"a": 1}\n{"a": 2}\n', [1, 2], [1, 2]),  # DAT-03
        (codecs.BOM_UTF8 + b'\n{"a": 1}\n' + codecs.BOM_UTF8 + b'{"a": 2}\n' + codecs.BOM_UTF8, [1, 2], [2, 3]),  # joined files
        ('{"a": "\u2028\u2029\x85\u00a0"}\n{"a": "\\f"}\n', ["\u2028\u2029\x85\u00a0", "\f"], [1, 2]),
        (' {"a": "ä€😀"}  \n', ["ä€😀"], [1]),
        ('{"a": "\\ud800"}\n', ["\ud800"], [1]),
        ('{"a": Infinity}', [math.inf], [1]),
    ],
)
def test_lines_are_rows(file, content, values, lines):
    rows = load_rows(file(content))
    assert [row["a"] for row in rows] == values
    assert [rows[index]["a"] for index in range(len(rows))] == values
    assert [rows.line_of(index) for index in range(len(rows))] == lines


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_the_same_whatever_the_chunks(size):
    data = b"a\r\nb\rc\n\n\r\r\nlong line\x0b\x0c\nend\r"
    chunks = [data[i : i + size] for i in range(0, len(data), size)]
    assert [line for lines in whole_lines(chunks) for line in lines] == data.splitlines(keepends=True)


def test_rows_know_their_file(file):
    path = file(content := b'{"a": 1}\n\n{"a": 2}\n')
    rows = load_rows(path)
    assert isinstance(rows, JsonlRows)
    assert (rows.path, rows.bytes, rows.sha256) == (path, len(content), hashlib.sha256(content).hexdigest())


def test_rows_are_a_sequence(file):
    rows, plain = load_rows(file('{"a": 1}\n{"a": 2}\n{"a": 3}\n')), [{"a": 1}, {"a": 2}, {"a": 3}]
    assert len(rows) == 3
    assert rows == plain
    assert plain == rows
    assert rows != plain[:2]
    assert rows[-1] == {"a": 3}
    assert rows[1:] == plain[1:]
    assert rows[::-1] == plain[::-1]
    assert rows + [{"a": 4}] == [*plain, {"a": 4}]  # noqa: RUF005 - the sum is what is tested
    assert [{"a": 0}] + rows == [{"a": 0}, *plain]  # noqa: RUF005 - the same
    assert rows + rows == plain + plain
    assert {"a": 2} in rows
    for index in (3, -4):
        with pytest.raises(IndexError):
            rows[index]


@pytest.mark.parametrize("name", ["samples.jsonl", "samples.jsonl.gz", "samples.json"])
def test_a_row_may_be_changed_without_changing_the_data(file, name):
    content = b'[{"a": [1]}]' if name.endswith(".json") else b'{"a": [1]}\n'
    rows = load_rows(file(gzip.compress(content) if name.endswith(".gz") else content, name))
    rows[0]["a"].append(2)
    next(iter(rows))["a"].append(3)
    assert rows[0] == {"a": [1]}


def test_every_bad_line_is_told_with_its_place(file):  # DAT-02
    told = refused(
        file(b'{"input": "x"}\n\n   \n{"input": "x", "ideal": "y" "z"}\n[1,2]\n{"a": "\xc3\xa4\xff"}\nnull\n"x"\n{"a": "\t"}\n3\ntrue\n'),
        check=lambda row: None,
    )
    assert told.splitlines()[0] == "samples.jsonl:4:29 is not JSON: Expecting ',' delimiter."
    assert "samples.jsonl:5 is a list, not an object." in told
    assert "samples.jsonl:6:9 is not UTF-8: byte 0xff." in told
    assert "samples.jsonl:7 is null, not an object." in told
    assert "samples.jsonl:8 is a text, not an object." in told
    assert "samples.jsonl:9:8 is not JSON: Invalid control character at." in told
    assert "samples.jsonl:10 is a number, not an object." in told
    assert "samples.jsonl:11 is true or false, not an object." in told
    assert "Each line must be one JSON object" in told


def test_many_bad_lines_are_told_in_part_and_counted(file):
    told = refused(file("[]\n" * 1000))
    assert "samples.jsonl:20 is" in told
    assert "samples.jsonl:21 is" not in told
    assert "and 980 more" in told


@pytest.mark.parametrize("value", ["[" * 100_000, "1" * 10_000])
def test_what_python_cannot_hold_is_told_as_a_bad_line(file, value):
    assert "samples.jsonl:2" in refused(file(f'{{"a": 1}}\n{{"a": {value}}}\n'))


@pytest.mark.parametrize("content", ["", "\n \n\r\n", "\ufeff"])
def test_no_rows_are_no_data(file, content):
    assert "samples.jsonl holds no rows" in refused(file(content), EmptyDataset)


def test_an_lfs_pointer_is_told(file):  # DAT-01
    told = refused(file("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"), NotData)
    assert "samples.jsonl" in told
    assert "Git LFS" in told


def test_a_missing_file_is_told(tmp_path):
    assert "there is no file no.jsonl" in refused(tmp_path / "no.jsonl", MissingData)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("1", '"1"', True),  # DAT-05
        ('"a"', '"a"', True),
        ("1", "2", False),
        ('"a"', '"A"', False),
        ("null", "null", False),
        ("1", "1.0", False),  # a float is no id
        ("true", "true", False),
    ],
)
def test_ids_that_are_equal_as_text_are_refused(file, first, second, same):
    path = file(f'{{"id": {first}}}\n\n{{"id": {second}}}\n')
    if not same:
        assert len(load_rows(path)) == 2
        return
    told = refused(path)
    assert f"samples.jsonl:3 has the id {json.dumps(str(json.loads(second)))}, which line 1 has already" in told
    assert load_rows(path, unique_ids=False) == get_jsonl(path)


def test_the_complaints_of_a_check_are_told(file):
    def check(row):
        return None if "ideal" in row else f'has no "ideal" (it has: {", ".join(row)})'

    told = refused(file('{"input": 1, "ideal": 2}\n{"input": 1}\n\n{"answer": 1}\n'), BadSample, check=check)
    assert told.splitlines() == [
        'samples.jsonl:2 has no "ideal" (it has: input).',
        'samples.jsonl:4 has no "ideal" (it has: answer).',
    ]


def test_faults_of_all_kinds_are_told_at_once(file):
    told = refused(file('{"id": 1}\n{"id": 1}\nnope\n'), Faults, check=lambda row: "has no input")
    assert "BadRows: samples.jsonl:3:2 is not JSON" in told or "BadRows: samples.jsonl:3:1 is not JSON" in told
    assert 'BadRows: samples.jsonl:2 has the id "1"' in told
    assert "BadSample: samples.jsonl:1 has no input." in told


def test_a_check_that_fails_itself_is_told_with_the_row(file):
    with pytest.raises(EvalFailed, match=r"samples.jsonl:2 raised KeyError: 'input'"):
        load_rows(file('{"input": 1}\n{"x": 1}\n'), check=lambda row: row["input"] and None)


def test_rows_can_be_read_by_several_threads(file):
    rows = load_rows(file("".join(f'{{"a": {i}}}\n' for i in range(2000))))
    with ThreadPoolExecutor(8) as pool:
        assert [row["a"] for row in pool.map(rows.__getitem__, range(2000))] == list(range(2000))


def test_rows_can_be_copied_and_sent_to_another_process(file):
    rows = load_rows(file('{"a": 1}\n{"a": 2}\n'))
    assert pickle.loads(pickle.dumps(rows)) == rows == copy.deepcopy(rows)


def test_rows_stay_where_they_are_when_the_folder_changes(file, monkeypatch):
    path = file('{"a": 1}\n')
    monkeypatch.chdir(path.parent)
    rows = load_rows(path.name)
    monkeypatch.chdir("/")
    assert rows == [{"a": 1}]


@pytest.mark.parametrize(
    ("after", "harmless"),
    [
        (b'{"a": 1}\n{"a": 2}\n', True),  # touched, or written anew
        (b'{"a": 1}\n{"a": 2}\n{"a": 3}\n', True),  # rows were added
        (b'{"a": 1}\n{"a": 7}\n', False),  # it still parses, but it is another row
        (b'{"a": 1}\n', False),
        (b"", False),
    ],
)
def test_a_file_that_changes_under_a_run_is_told(file, after, harmless):
    rows = load_rows(path := file('{"a": 1}\n{"a": 2}\n'))
    path.write_bytes(after)
    os.utime(path, ns=(1, 1))
    if harmless:
        assert rows == [{"a": 1}, {"a": 2}]
        assert rows[1] == {"a": 2}
        return
    for read in (lambda: rows[1], lambda: list(rows)):
        with pytest.raises(DataError, match=r"samples.jsonl has changed since its rows were checked"):
            read()


def test_a_change_that_leaves_no_trace_is_told_when_a_row_does_not_parse(file):
    rows = load_rows(path := file('{"a": 1}\n{"a": 2}\n'))
    stat = path.stat()
    path.write_bytes(b'{"a": 1}\n["a", 2]\n')
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(DataError, match=r"samples.jsonl:2 has changed"):
        rows[1]


def test_a_file_that_goes_away_is_told(file):
    rows = load_rows(path := file('{"a": 1}\n'))
    path.unlink()
    with pytest.raises(MissingData, match="there is no file"):
        rows[0]
