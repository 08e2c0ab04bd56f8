import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from evalframe.core.errors import DataError, MissingData, MissingExtra, NotData
from evalframe.storage.files import is_url, local_path, open_binary, refuse_non_data, shown, with_head


class Shop(BaseHTTPRequestHandler):
    """Hands out a file, and what servers hand out in its place."""

    def do_GET(self):
        path = self.path.partition("?")[0]
        status = {"/data.jsonl": 200, "/torn": 200}.get(path, int(path[1:]) if path[1:].isdigit() else 404)
        self.send_response(status)
        self.send_header("Content-Length", "1000" if path == "/torn" else "9")
        self.end_headers()
        self.wfile.write(b'{"a": 1}\n')

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def shop():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("data/rows.jsonl", False),
        ("https://host/rows.jsonl", True),
        ("s3://bucket/rows.jsonl", True),
        ("file:///tmp/rows.jsonl", False),
        ("a:b", False),
    ],
)
def test_a_url_is_what_lies_elsewhere(name, url):
    assert is_url(name) is url
    assert (local_path(name) is None) is url


def content(path_or_url):
    with open_binary(path_or_url) as file:
        return file.read()


def test_a_file_url_is_a_local_path(tmp_path):
    (tmp_path / "a b%20.txt").write_bytes(b"hello")
    assert content((tmp_path / "a b%20.txt").as_uri()) == b"hello"


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("https://me:secret@host:8/a/b.jsonl?sig=secret#secret", "https://host:8/a/b.jsonl"),
        ("s3://bucket/rows.jsonl", "s3://bucket/rows.jsonl"),
        ("rows.jsonl?x", "rows.jsonl?x"),  # a path may hold a question mark
        ("http://me:secret@[::1/x?secret", "[::1/x"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url, seen):
    assert shown(url) == seen


def test_a_missing_file_is_told_with_what_is_there(tmp_path):
    with pytest.raises(MissingData, match=f"there is no file {tmp_path}/no/where.jsonl. Of its path, {tmp_path} is there"):
        open_binary(tmp_path / "no" / "where.jsonl")


def test_a_folder_is_told_with_its_files(tmp_path):
    (tmp_path / "rows.jsonl").touch()
    with pytest.raises(MissingData, match=r"is a folder, not a file. Name one of its files: rows.jsonl"):
        open_binary(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_told(tmp_path):
    (tmp_path / "rows.jsonl").touch(mode=0)
    with pytest.raises(MissingData, match="chmod"):
        open_binary(tmp_path / "rows.jsonl")


def test_an_impossible_name_is_told():
    with pytest.raises(MissingData, match="there can be no file"):
        open_binary("rows\0.jsonl")


def test_an_overlong_name_is_told(tmp_path):
    with pytest.raises(MissingData, match="Shorten the name"):
        open_binary(tmp_path / ("x" * 300))


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n", ["Git LFS", "git lfs pull"]),  # DAT-01
        (b"\xef\xbb\xbfversion https://git-lfs.github.com/spec/v1\n", ["Git LFS"]),
        (b"<!DOCTYPE html>\n<html>", ["web page"]),
        (b"\xef\xbb\xbf \r\n <!-- saved from --> <HTML lang=en>", ["web page"]),
        (b"\xff\xfe{\0", ["UTF-16", "UTF-8"]),
    ],
)
def test_what_lies_in_place_of_data_is_recognised(head, words):
    with pytest.raises(NotData) as caught:
        refuse_non_data(head, "data/samples.jsonl")
    for word in ["data/samples.jsonl", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize("head", [b"", b'{"input": "<html>"}', b"version,ideal\n", b"<htmlish", b"input,ideal\n<b>,c\n"])
def test_data_is_let_through(head):
    refuse_non_data(head, "samples.jsonl")


def test_a_head_in_small_chunks_is_recognised():
    with pytest.raises(NotData):
        list(with_head([b" ", b"<!doc", b"type ht", b"ml>"], "x"))
    assert b"".join(with_head([b"a", b"b" * 9000, b"c"], "x")) == b"a" + b"b" * 9000 + b"c"


def test_a_file_is_fetched_by_http(shop):
    assert content(f"http://{shop}/data.jsonl?key=secret") == b'{"a": 1}\n'


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        ("404", MissingData, "there is no file http://{shop}/404: HTTP 404"),
        ("403", MissingData, "may not be read: HTTP 403"),
        ("500", DataError, "cannot fetch http://{shop}/500: HTTP 500"),
        ("torn", DataError, "cannot fetch http://{shop}/torn"),  # fewer bytes than announced are not a file
    ],
)
def test_a_file_that_cannot_be_fetched_is_told_without_secrets(shop, path, error, words):
    with pytest.raises(error) as caught:
        open_binary(f"http://me:hidden@{shop}/{path}?key=hidden")
    assert words.format(shop=shop) in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_server_that_is_not_there_is_told():
    with pytest.raises(DataError, match=r"cannot fetch http://127\.0\.0\.1:9/x: Connection refused"):
        open_binary("http://127.0.0.1:9/x?key=hidden")


def test_other_schemes_need_the_extra_or_an_existing_file():
    try:
        import fsspec  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtra, match=r'reading memory://x/rows.jsonl needs "fsspec".*evalframe\[remote\]'):
            open_binary("memory://x/rows.jsonl")
    else:
        with pytest.raises(MissingData, match=r"there is no file memory://x/rows\.jsonl"):
            open_binary("memory://x/rows.jsonl")
        with pytest.raises(DataError, match="cannot fetch nosuch://x"):
            open_binary("nosuch://x")
