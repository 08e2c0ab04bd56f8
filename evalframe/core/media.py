"""
Pictures, sounds and files in messages: read from disk before they are sent, kept out of the log but for their hashes.

A message's content may be a list of parts as chat completions spell them: `text`, `image_url`, `input_audio`, `file`. Beside URLs and data
URLs a part may name a file of this machine, by a path or a file:// URL. Only what looks like a picture, a PDF or a sound by its first bytes
is read: a data set cannot send anything else of this machine to a provider.

Covers: PNG, JPEG, GIF, WebP, PDF, WAV, MP3; paths relative to the folder of the data.
Does not cover: files on other machines; a URL is the endpoint's to fetch.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from evalframe.core.errors import BadSample
from evalframe.core.prompts import Prompt

MOST_BYTES = 20 << 20
"""The largest file that is read."""
DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w.+-]+=[\w.+\"-]+)*);base64,(.*)", re.DOTALL)
KEPT = re.compile(r"sha256:[0-9a-f]{64},\d+ bytes")
"""How the log spells data that it leaves out."""
REMOTE = ("http://", "https://", "gs://", "s3://")
HEAD_BYTES = 16


@dataclass(frozen=True, slots=True)
class Media:
    """
    A part that is no text.

    Args:
        kind: What it is.
        media_type: Such as "image/png"; "" where only the endpoint will know.
        data: Base64; None where there is a URL.
        url: Where it lies; None where there is data.
        name: The file's name, where there is one.
        detail: How closely a picture is to be looked at, as the endpoint calls it.
    """

    kind: Literal["image", "audio", "file"]
    media_type: str = ""
    data: str | None = None
    url: str | None = None
    name: str | None = None
    detail: str | None = None

    @property
    def data_url(self) -> str:
        """The data, or the URL where there is none."""
        return self.url or f"data:{self.media_type};base64,{self.data}"


def part_of(raw: Any) -> str | Media | None:
    """
    A part of a message's content: its text, or what else it is; None for a part of a kind that is not known here.

    Args:
        raw: As chat completions spell it; files are read by then.
    """
    if isinstance(raw, str):
        return raw
    if not isinstance(raw, Mapping):
        return None
    kind = raw.get("type")
    if kind in ("text", "input_text", "output_text"):
        return str(raw.get("text") or "")
    held = raw.get(kind) if isinstance(kind, str) else None
    if kind == "image_url":
        told = held if isinstance(held, Mapping) else {"url": held}
        return located("image", str(told.get("url") or ""), detail=told.get("detail"))
    if kind == "input_audio" and isinstance(held, Mapping):
        form = str(held.get("format") or "wav")
        return Media("audio", "audio/mpeg" if form == "mp3" else f"audio/{form}", str(held.get("data") or ""))
    if kind == "file" and isinstance(held, Mapping) and isinstance(held.get("file_data"), str):
        return located("file", held["file_data"], name=held.get("filename"))
    return None


def located(kind: Literal["image", "audio", "file"], url: str, *, name: Any = None, detail: Any = None) -> Media:
    """A part by its URL, or by the data in it."""
    own_name, own_detail = (value if isinstance(value, str) else None for value in (name, detail))
    found = DATA_URL.fullmatch(url)
    if found is None:
        return Media(kind, url=url, name=own_name, detail=own_detail)
    return Media(kind, found[1] or "application/octet-stream", found[3], name=own_name, detail=own_detail)


# ---------------------------------------------------------------------- files of this machine


def read_files(prompt: Prompt, folder: Path) -> Prompt:
    """
    The prompt with the files of this machine that it names put in as data; the prompt itself where it names none.

    Args:
        prompt: Stays as it is.
        folder: What relative paths are relative to: the folder of the data.

    Raises:
        BadSample: If a file is not there, is too large, or is neither picture nor PDF nor sound.
    """
    if isinstance(prompt, str) or not any(names_file(part) for message in prompt for part in parts_of(message)):
        return prompt
    return [
        {**message, "content": [with_data(part, folder) for part in message["content"]]} if parts_of(message) else message
        for message in prompt
    ]


def fault_of_files(prompt: Prompt, folder: Path) -> str | None:
    """What is wrong with the files that a prompt names, if anything; looked at before anything is asked."""
    if isinstance(prompt, str):
        return None
    for named in (names_file(part) for message in prompt for part in parts_of(message)):
        if named is not None:
            try:
                read_media(named, folder)
            except BadSample as error:
                return str(error)
    return None


def parts_of(message: Mapping[str, Any]) -> list[Any]:
    """The parts of a message whose content is a list of them."""
    content = message.get("content")
    return content if isinstance(content, list) else []


def names_file(part: Any) -> str | None:
    """The path that a part names, if it names a file of this machine."""
    if not isinstance(part, Mapping):
        return None
    kind = part.get("type")
    held = part.get(kind) if isinstance(kind, str) else None
    if kind == "image_url":
        url = held.get("url") if isinstance(held, Mapping) else held
        if isinstance(url, str) and url and not url.startswith((*REMOTE, "data:")):
            return url
    if kind in ("file", "input_audio") and isinstance(held, Mapping) and isinstance(held.get("path"), str):
        return str(held["path"])
    return None


def with_data(part: Any, folder: Path) -> Any:
    """The part with its file in it."""
    named = names_file(part)
    if named is None:
        return part
    media_type, content = read_media(named, folder)
    data = base64.b64encode(content).decode("ascii")
    kind = part["type"]
    rest = {name: value for name, value in part[kind].items() if name not in ("url", "path")} if isinstance(part[kind], Mapping) else {}
    if kind == "image_url":
        return {**part, kind: {"url": f"data:{media_type};base64,{data}", **rest}}
    if kind == "input_audio":
        return {**part, kind: {"data": data, "format": "mp3" if media_type == "audio/mpeg" else media_type.partition("/")[2], **rest}}
    return {**part, kind: {"filename": Path(named).name, "file_data": f"data:{media_type};base64,{data}", **rest}}


def read_media(named: str, folder: Path) -> tuple[str, bytes]:
    """
    The media type of a file, and what it holds.

    Raises:
        BadSample: See `read_files`.
    """
    path = Path(unquote(urlsplit(named).path) if named.startswith("file://") else named).expanduser()
    path = path if path.is_absolute() else folder / path
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise BadSample(f"the message names {named!r}, but {path} is no file.")
        if size > MOST_BYTES:
            raise BadSample(f"{path} has {size:,} bytes; {MOST_BYTES >> 20} MiB are the most that a message takes.")
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or error
        raise BadSample(
            f"the message names the file {named!r}, and {path} cannot be read: {told}.", do="Paths are relative to the folder of the data."
        ) from error
    media_type = type_of(content)
    if media_type is None:
        raise BadSample(
            f"{path} is neither a picture (PNG, JPEG, GIF, WebP) nor a PDF nor a sound (WAV, MP3), so it is not sent to a model.",
            do="Put text into the message as text.",
        )
    return media_type, content


def type_of(content: bytes) -> str | None:
    """The media type that the first bytes tell, of those that are sent."""
    head = content[:HEAD_BYTES]
    for start, media_type in (
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"%PDF-", "application/pdf"),
        (b"ID3", "audio/mpeg"),
        (b"\xff\xfb", "audio/mpeg"),
        (b"\xff\xf3", "audio/mpeg"),
        (b"\xff\xf2", "audio/mpeg"),
    ):
        if head.startswith(start):
            return media_type
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE"):
        return "image/webp" if head[8:12] == b"WEBP" else "audio/wav"
    return None


# ---------------------------------------------------------------------- the log


def without_media(value: Any) -> Any:
    """
    A JSON value as the log keeps it: the data of each data URL, and of each sound, is replaced by "sha256:HASH,N bytes".

    Returns:
        The value itself where there is nothing to replace; else a copy. Of such a copy it is the same again.
    """
    if isinstance(value, str):
        found = DATA_URL.fullmatch(value) if value.startswith("data:") else None
        return f"{value[: found.start(3)]}{told(found[3])}" if found is not None else value
    if isinstance(value, Mapping):
        changed = {}
        for name, item in value.items():
            kept = without_sound(item) if name == "input_audio" and isinstance(item, Mapping) else without_media(item)
            if kept is not item:
                changed[name] = kept
        return {**value, **changed} if changed else value
    if isinstance(value, list | tuple):
        items = [without_media(item) for item in value]
        return items if any(kept is not item for kept, item in zip(items, value, strict=True)) else value
    return value


def without_sound(held: Mapping[str, Any]) -> Mapping[str, Any]:
    """A sound without its data."""
    data = held.get("data")
    return {**held, "data": told(data)} if isinstance(data, str) and not KEPT.fullmatch(data) else held


def told(data: str) -> str:
    """Base64 data as the log tells of it: by the hash and the number of its bytes; what is told already stays."""
    if KEPT.fullmatch(data):
        return data
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        content = data.encode("utf-8", "surrogatepass")
    return f"sha256:{hashlib.sha256(content).hexdigest()},{len(content)} bytes"
