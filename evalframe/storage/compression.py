"""
Read compressed files, told by their ending: .gz, .bz2 and .xz with the standard library, .zst and .lz4 where `zstandard` and `lz4` are
installed.

Covers: files of several streams one after the other, as parallel compressors write them; a file that ends too early or holds something
else is told, never read in part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any, Protocol

from evalframe.core.errors import DataError, UsageError

INPUT_BYTES = 1 << 16
"""Compressed bytes that are taken at a time, so that what they grow to stays small."""


class Decompressor(Protocol):
    """What the five libraries have in common: one compressed stream, read piece by piece."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""
        ...

    @property
    def unused_data(self) -> bytes:
        """What was given beyond its end."""
        ...

    def decompress(self, data: bytes, /) -> bytes:
        """Take compressed bytes, give what they stand for."""
        ...


def gzip_stream() -> Any:
    """A reader of one gzip stream."""
    import zlib

    return zlib.decompressobj(wbits=31)


def bzip2_stream() -> Any:
    """A reader of one bzip2 stream."""
    import bz2

    return bz2.BZ2Decompressor()


def xz_stream() -> Any:
    """A reader of one xz stream."""
    import lzma

    return lzma.LZMADecompressor()


def zstandard_stream() -> Any:
    """A reader of one Zstandard frame."""
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


def lz4_stream() -> Any:
    """A reader of one LZ4 frame."""
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor()


STREAMS: dict[str, Callable[[], Decompressor]] = {
    ".gz": gzip_stream,
    ".bz2": bzip2_stream,
    ".xz": xz_stream,
    ".zst": zstandard_stream,
    ".lz4": lz4_stream,
}
LIBRARIES = {".zst": "zstandard", ".lz4": "lz4"}
"""What pip calls the libraries that are not part of Python."""


def compression_of(name: str) -> str | None:
    """The ending by which a file counts as compressed, in lower case; None where it does not."""
    ending = PurePosixPath(name).suffix.lower()
    return ending if ending in STREAMS else None


def without_compression(name: str) -> str:
    """The name without that ending: "rows.jsonl" for "rows.jsonl.gz"."""
    ending = compression_of(name)
    return name[: -len(ending)] if ending else name


def decompressed(chunks: Iterable[bytes], ending: str, name: str) -> Iterator[bytes]:
    """
    What compressed bytes stand for, piece by piece.

    Args:
        chunks: The compressed file.
        ending: One of ".gz", ".bz2", ".xz", ".zst", ".lz4".
        name: The file, as it is to be named in an error.

    Raises:
        DataError: If the file is damaged, cut short, or not compressed that way.
        UsageError: If the library for it is not installed.
    """
    stream = opened(ending, name)
    begun = False
    for data in pieces(chunks):
        while data:
            if stream.eof:
                data = data.lstrip(b"\0")  # padding to whole blocks, as tape programs and xz write it
                if not data:
                    break
                stream, begun = opened(ending, name), False
            begun = True
            plain, data = step(stream, data, ending, name)
            if plain:
                yield plain
    if begun and not stream.eof:
        raise damaged(name, ending, "it ends too early")


def opened(ending: str, name: str) -> Decompressor:
    """A fresh stream; raises as `decompressed`."""
    try:
        return STREAMS[ending]()
    except ImportError as error:
        library = LIBRARIES[ending]
        raise UsageError(f'reading {name} needs "{library}".', do=f"Install it: pip install {library}") from error


def step(stream: Decompressor, data: bytes, ending: str, name: str) -> tuple[bytes, bytes]:
    """What `data` stands for, and what of it lies beyond the end of the stream; raises as `decompressed`."""
    try:
        plain = stream.decompress(data)
    except MemoryError:
        raise
    except Exception as error:  # each library has errors of its own, and some raise RuntimeError
        raise damaged(name, ending, str(error) or type(error).__name__) from error
    return plain, (stream.unused_data or b"") if stream.eof else b""


def damaged(name: str, ending: str, why: str) -> DataError:
    """The error for a compressed file that cannot be read."""
    return DataError(
        f"{name} is damaged, or not compressed as its ending {ending} says: {why}.",
        do=f"Fetch or compress it again, or take the ending {ending} off its name if it is plain.",
    )


def pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of `INPUT_BYTES` at most."""
    for chunk in chunks:
        for start in range(0, len(chunk), INPUT_BYTES):
            yield chunk[start : start + INPUT_BYTES]
