"""
Open data wherever it lies: a path on this machine, or a URL.

Covers: local paths and file://; http:// and https:// through requests; every other scheme (s3://, gs://, hf://, ...) through fsspec (extra
`remote`). A remote file is fetched whole before the first byte is handed on, so that a broken connection is told here and nowhere else.
What lies in place of data is recognised: a Git LFS pointer, a web page, text in UTF-16.
Does not cover: writing, and trying again after a broken connection.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO, NoReturn, cast
from urllib.parse import SplitResult, unquote, urlsplit

from evalframe.core.errors import DataError, MissingData, MissingExtra, NotData

CHUNK_BYTES = 1 << 20
HEAD_BYTES = 4096
"""How much of a file `refuse_non_data` wants to see."""
IN_MEMORY_BYTES = 1 << 26
"""A fetched file past this size goes to a temporary file."""
CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0
"""Without a single byte."""

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
WEB_PAGE = re.compile(rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
UTF8_BOM = b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def is_url(path_or_url: str | Path) -> bool:
    """Whether this is a URL of something that does not lie on this machine; file:// does."""
    text = str(path_or_url)
    return isinstance(path_or_url, str) and bool(SCHEME.match(text)) and not text.lower().startswith("file://")


def local_path(path_or_url: str | Path) -> Path | None:
    """The path on this machine, "~" spelt out; None for a URL of something elsewhere."""
    if is_url(path_or_url):
        return None
    text = str(path_or_url)
    if text.lower().startswith("file://"):
        text = unquote(urlsplit(text).path)
    return Path(text).expanduser()


def shown(path_or_url: str | Path) -> str:
    """As it may be shown and logged: a URL without userinfo, query and fragment, in which keys are sent."""
    if not is_url(path_or_url):
        return str(local_path(path_or_url))
    try:
        parts = urlsplit(str(path_or_url))
    except ValueError:  # such as an unclosed [ of an IPv6 address
        return str(path_or_url).partition("?")[0].rpartition("@")[2]
    return SplitResult(parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "").geturl()


def open_binary(path_or_url: str | Path) -> BinaryIO:
    """
    Open a file for reading; the caller closes it.

    Args:
        path_or_url: Where it lies.

    Raises:
        MissingData: If it is not there, is a folder, or may not be read.
        MissingExtra: If its scheme needs a library that is not installed.
        DataError: If it cannot be fetched.
    """
    path = local_path(path_or_url)
    if path is not None:
        return open_local(path)
    if str(path_or_url).lower().startswith(("http://", "https://")):
        return fetch_http(str(path_or_url))
    return fetch_remote(str(path_or_url))


def open_local(path: Path) -> BinaryIO:
    """Open a file on this machine; errors as `open_binary`."""
    try:
        return path.open("rb")
    except OSError as error:
        refuse_missing(path, error)
    except ValueError as error:  # a NUL in the name, or a character that the machine's file names cannot hold
        raise MissingData(f"there can be no file {str(path)!a}: {error}.", do="Check the spelling.") from error


def refuse_missing(path: Path, error: OSError) -> NoReturn:
    """
    Say why a file on this machine cannot be opened, and what to do.

    Raises:
        MissingData: Always.
    """
    if isinstance(error, IsADirectoryError):
        files = ", ".join(sorted(inner.name for inner in path.iterdir() if inner.is_file())[:5])
        raise MissingData(
            f"{path} is a folder, not a file.", do=f"Name one of its files: {files}." if files else "Name a file; this folder holds none."
        ) from error
    if isinstance(error, PermissionError):
        raise MissingData(f"{path} may not be read by this user.", do=f"Allow it: chmod u+r {path}") from error
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        folder = next((parent for parent in path.absolute().parents if parent.is_dir()), Path("/"))
        known = "" if folder == path.absolute().parent else f" Of its path, {folder} is there."
        raise MissingData(f"there is no file {path}.{known}", do="Check the spelling, or give an absolute path.") from error
    do = "Shorten the name." if error.errno == errno.ENAMETOOLONG else "Check the path and the disk."
    raise MissingData(f"cannot open {path}: {error.strerror or error}.", do=do) from error


def fetch_http(url: str) -> BinaryIO:
    """Fetch a whole file by http or https; errors as `open_binary`."""
    import requests

    try:
        with requests.get(url, stream=True, timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S)) as response:
            refuse_status(url, response.status_code)
            return spooled(response.iter_content(CHUNK_BYTES))
    except (requests.RequestException, ValueError) as error:
        raise DataError(f"cannot fetch {shown(url)}: {reason(error)}.", do="Check the address and the network.") from error


def refuse_status(url: str, status: int) -> None:
    """
    Refuse an answer that is not the file.

    Raises:
        MissingData: If the server says that there is no such file, or not for us.
        DataError: If it says anything else but success.
    """
    if status in (401, 403):
        raise MissingData(f"{shown(url)} may not be read: HTTP {status}.", do="Fetch it by hand with your key, and name the local file.")
    if status in (404, 410):
        raise MissingData(f"there is no file {shown(url)}: HTTP {status}.", do="Check the spelling.")
    if status != 200:
        raise DataError(f"cannot fetch {shown(url)}: HTTP {status}.", do="Try again later, or fetch it by hand and name the local file.")


def fetch_remote(url: str) -> BinaryIO:
    """Fetch a whole file through fsspec; errors as `open_binary`."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtra.named(f"reading {shown(url)}", library="fsspec", extra="remote") from error
    try:
        with fsspec.open(url, "rb") as file:
            return spooled(iter(lambda: file.read(CHUNK_BYTES), b""))
    except ImportError as error:  # fsspec knows the scheme, and which library it needs: "Install s3fs to access S3"
        raise MissingExtra(f"reading {shown(url)} needs one more library: {error}.") from error
    except FileNotFoundError as error:
        raise MissingData(f"there is no file {shown(url)}.", do="Check the spelling, and whether your account sees it.") from error
    except Exception as error:  # each store has errors of its own
        raise DataError(
            f"cannot fetch {shown(url)}: {reason(error)}.", do="Check the address, the network and your account for this store."
        ) from error


def spooled(chunks: Iterable[bytes]) -> BinaryIO:
    """The chunks as a file: in memory, or on disk where they are many."""
    from tempfile import SpooledTemporaryFile

    file = SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115 - the caller closes it
    try:
        for chunk in chunks:
            file.write(chunk)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return cast("BinaryIO", file)


def reason(error: BaseException) -> str:
    """
    Why a connection failed, in a few words and without the URL: the operating system's own, where it spoke, else the error's name.
    """
    step: BaseException | None = error
    for _ in range(10):
        if step is None:
            break
        if isinstance(step, OSError) and isinstance(step.errno, int) and step.strerror:
            return step.strerror
        if isinstance(step, TimeoutError):
            return "no answer in time"
        step = step.__cause__ or step.__context__
    return type(error).__name__


def read_chunks(file: IO[bytes], name: str | Path) -> Iterator[bytes]:
    """
    The content of a file piece by piece; the file is closed at the end.

    Raises:
        DataError: If reading fails half-way.
    """
    with file:
        while True:
            try:
                chunk = file.read(CHUNK_BYTES)
            except OSError as error:
                raise DataError(f"cannot read {name} to its end: {error.strerror or error}.", do="Check the disk.") from error
            if not chunk:
                return
            yield chunk


def refuse_non_data(head: bytes, path: str | Path) -> None:
    """
    Refuse what often lies in place of data.

    Args:
        head: The file's first bytes, `HEAD_BYTES` or all.
        path: The file, as it is to be named.

    Raises:
        NotData: If it is a Git LFS pointer, a web page, or text in UTF-16.
    """
    start = head.removeprefix(UTF8_BOM)
    if start.startswith(LFS_POINTER):
        raise NotData(
            f"{path} is a Git LFS pointer: the data itself was never fetched.",
            do="Fetch it: run `git lfs pull` in its repository.",
        )
    if WEB_PAGE.match(start):
        raise NotData(
            f"{path} is a web page, not data.", do="Download the file itself (on GitHub: the Raw button), not the page that shows it."
        )
    if start.startswith(UTF16_BOMS):
        raise NotData(f"{path} is text in UTF-16.", do="Save it as UTF-8.")


def with_head(chunks: Iterable[bytes], path: str | Path) -> Iterator[bytes]:
    """The same chunks, after a look at the first bytes; raises as `refuse_non_data`."""
    stream = iter(chunks)
    begun = bytearray()
    for chunk in stream:
        begun += chunk
        if len(begun) >= HEAD_BYTES:
            break
    refuse_non_data(bytes(begun[:HEAD_BYTES]), path)
    if begun:
        yield bytes(begun)
    yield from stream
