import bz2
import gzip
import importlib.util
import lzma

import pytest

from evalframe.core.errors import DataError, UsageError
from evalframe.storage.compression import compression_of, decompressed, without_compression

PLAIN = b'{"input": "x"}\n' * 20_000
COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def compressed(ending, plain=PLAIN):
    if ending == ".zst":
        return pytest.importorskip("zstandard").compress(plain)
    if ending == ".lz4":
        return pytest.importorskip("lz4.frame").compress(plain)
    return COMPRESS[ending](plain)


ENDINGS = pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst", ".lz4"])


@pytest.mark.parametrize(
    ("name", "ending", "bare"),
    [
        ("rows.jsonl.gz", ".gz", "rows.jsonl"),
        ("ROWS.JSONL.ZST", ".zst", "ROWS.JSONL"),
        ("rows.jsonl", None, "rows.jsonl"),
        ("gz", None, "gz"),
    ],
)
def test_the_ending_tells_the_compression(name, ending, bare):
    assert compression_of(name) == ending
    assert without_compression(name) == bare


@ENDINGS
def test_what_was_compressed_comes_back(ending):
    assert b"".join(decompressed([compressed(ending)], ending, "x")) == PLAIN


@ENDINGS
def test_several_streams_in_small_chunks_come_back_whole(ending):
    data = compressed(ending, b"one\n") + compressed(ending, b"two\n")
    chunks = [data[i : i + 3] for i in range(0, len(data), 3)]
    assert b"".join(decompressed(chunks, ending, "x")) == b"one\ntwo\n"


@ENDINGS
def test_a_file_that_ends_too_early_is_told(ending):
    with pytest.raises(DataError, match=r"data/rows\.jsonl\.. is damaged.*ends too early"):
        list(decompressed([compressed(ending)[:-5]], ending, "data/rows.jsonl.x"))


@ENDINGS
def test_a_file_that_is_something_else_is_told(ending):
    compressed(ending, b"")  # skips where the library is not installed
    with pytest.raises(DataError, match="x is damaged, or not compressed as its ending"):
        list(decompressed([b"plain text"], ending, "x"))


def test_padding_at_the_end_is_no_damage():
    assert b"".join(decompressed([gzip.compress(b"one") + b"\0" * 600], ".gz", "x")) == b"one"


@pytest.mark.parametrize(("ending", "library"), [(".zst", "zstandard"), (".lz4", "lz4")])
def test_a_missing_library_is_told(ending, library):
    if importlib.util.find_spec(library):
        pytest.skip(f"{library} is installed")
    with pytest.raises(UsageError, match=f"reading rows.jsonl needs.*pip install {library}"):
        list(decompressed([b"x"], ending, "rows.jsonl"))
