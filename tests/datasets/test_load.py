import bz2
import gzip
import hashlib
import lzma
import os
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from evalframe.core.errors import BadRows, BadSample, DataError, EmptyDataset, NotData
from evalframe.datasets.load import get_jsonl, load_rows

JSONL = b'{"input": "x", "ideal": "y"}\n\n{"input": "z", "ideal": "\xc3\xa4"}\n'
ROWS = [{"input": "x", "ideal": "y"}, {"input": "z", "ideal": "ä"}]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.jsonl", JSONL),
        ("ROWS.JSONL", JSONL),
        ("rows.ndjson", JSONL),
        ("rows.jsonl.gz", gzip.compress(JSONL)),
        ("rows.jsonl.bz2", bz2.compress(JSONL)),
        ("rows.jsonl.xz", lzma.compress(JSONL)),
        ("rows.txt", JSONL),  # looks like JSONL
        ("rows", b"\xef\xbb\xbf\n" + JSONL),
        ("rows.json", b'[{"input": "x", "ideal": "y"},\n {"input": "z", "ideal": "\xc3\xa4"}]'),
        ("rows.json.gz", gzip.compress(b'\xef\xbb\xbf[{"input": "x", "ideal": "y"}, {"input": "z", "ideal": "\xc3\xa4"}]')),
        ("rows.csv", "input,ideal\nx,y\nz,ä\n".encode()),
        ("rows.csv.gz", gzip.compress("input,ideal\nx,y\nz,ä\n".encode())),
        ("rows.tsv", "input\tideal\nx\ty\nz\tä\n".encode()),
    ],
)
def test_the_ending_says_how_rows_are_read(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    rows = load_rows(str(tmp_path / name))
    assert rows == ROWS
    assert rows[:] == ROWS
    assert rows.sha256 == hashlib.sha256(content).hexdigest()  # of the file as it lies there
    assert rows.bytes == len(content)
    assert 2 <= rows.line_of(1) <= 4
    with pytest.raises(BadSample, match="ideal"):
        load_rows(tmp_path / name, check=lambda row: f"has the ideal {row['ideal']}")


@pytest.mark.parametrize("name", ["rows.parquet", "rows.yaml", "rows", "rows.txt.gz"])
def test_an_unknown_format_is_refused_with_the_known_ones(tmp_path, name):
    content = b"PAR1 something"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(NotData, match=r"of no known format.*\.jsonl, \.json .*\.csv and \.tsv"):
        load_rows(tmp_path / name)


def test_an_lfs_pointer_in_place_of_a_compressed_file_is_told(tmp_path):
    (tmp_path / "rows.jsonl.gz").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(NotData, match="Git LFS"):
        load_rows(tmp_path / "rows.jsonl.gz")


def test_a_damaged_file_is_told(tmp_path):
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(JSONL)[:-9])
    with pytest.raises(DataError, match=r"rows.jsonl.gz is damaged"):
        load_rows(tmp_path / "rows.jsonl.gz")


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b'{"input": 1}', NotData, "holds an object, not a list of rows"),
        (b"3", NotData, "holds a number, not a list"),
        (b"[]", EmptyDataset, "holds no rows"),
        (b"", EmptyDataset, "holds no rows"),
        (b'[{"a": 1},\n {"a": 2]', BadRows, "rows.json:2:9 is not JSON: Expecting ',' delimiter"),
        (b'{"a": 1}\n{"a": 2}\n', BadRows, "name it .jsonl"),
        (b'[{"a": 1},\n"\xff"]', BadRows, "rows.json:2:2 is not UTF-8: byte 0xff"),
        (b'[{"a": 1}, 3, null]', BadRows, "rows.json, row 2 is a number, not an object"),
        (b'[{"id": 1}, {"id": "1"}]', BadRows, 'rows.json, row 2 has the id "1", which row 1 has already'),
        (b"[" * 100_000, BadRows, "rows.json cannot be read"),
    ],
)
def test_a_json_file_must_hold_a_list_of_objects(tmp_path, content, error, words):
    (tmp_path / "rows.json").write_bytes(content)
    with pytest.raises(error) as caught:
        load_rows(tmp_path / "rows.json")
    assert words in str(caught.value)


def test_get_jsonl_reads_a_file_or_all_files_of_a_folder(tmp_path):
    (tmp_path / "b.jsonl").write_bytes(b'{"id": 1}\n{"id": 1}\n')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.jsonl").write_bytes(b'{"id": 2}\n')
    (tmp_path / "other.txt").write_bytes(b"no")
    assert get_jsonl(str(tmp_path / "b.jsonl")) == [{"id": 1}, {"id": 1}]
    assert get_jsonl(tmp_path) == [{"id": 1}, {"id": 1}, {"id": 2}]


def test_what_can_be_read_only_once_is_held(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(JSONL,))
    writer.start()
    rows = load_rows(pipe)
    writer.join()
    assert rows == rows[:] == ROWS


class Folder(SimpleHTTPRequestHandler):
    def log_message(self, *_arguments):
        pass


def test_rows_are_read_from_a_url(tmp_path):
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(JSONL))
    (tmp_path / "rows.csv").write_bytes(b"input,ideal\nx,\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Folder(*a, directory=tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            base = f"127.0.0.1:{server.server_port}"
            rows = load_rows(f"http://{base}/rows.jsonl.gz?signature=hidden")
            assert rows == ROWS
            assert rows.path == f"http://{base}/rows.jsonl.gz"
            assert load_rows(f"http://{base}/rows.csv") == [{"input": "x", "ideal": ""}]
            (tmp_path / "page").write_bytes(b"<!doctype html>")
            with pytest.raises(NotData, match="web page"):
                load_rows(f"http://{base}/page")
        finally:
            server.shutdown()
            thread.join()
