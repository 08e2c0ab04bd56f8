import base64
import copy
import hashlib

import pytest

from evalframe.core import media
from evalframe.core.errors import BadSample
from evalframe.core.media import Media, fault_of_files, part_of, read_files, without_media

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
FILES = {
    "cat.png": (PNG, "image/png"),
    "cat.txt": (b"\xff\xd8\xff\xe0 a JPEG, whatever it is called", "image/jpeg"),
    "cat.gif": (b"GIF89a....", "image/gif"),
    "cat.webp": (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    "page.pdf": (b"%PDF-1.7 ...", "application/pdf"),
    "say.wav": (b"RIFF\x10\0\0\0WAVEfmt ", "audio/wav"),
    "say.mp3": (b"ID3\x04...", "audio/mpeg"),
    "über uns.png": (PNG, "image/png"),
}


def b64(content):
    return base64.b64encode(content).decode()


def asking(part):
    return [{"role": "system", "content": "Look."}, {"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}]


@pytest.fixture
def folder(tmp_path):
    for name, (content, _) in FILES.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("spelt", ["relative", "absolute", "url"])
def test_a_file_is_put_in_with_the_type_that_its_bytes_tell(folder, name, spelt):
    content, media_type = FILES[name]
    path = {"relative": name, "absolute": str(folder / name), "url": (folder / name).as_uri()}[spelt]
    prompt = asking({"type": "image_url", "image_url": {"url": path, "detail": "low"}})
    before = copy.deepcopy(prompt)
    read = read_files(prompt, folder)
    assert read[1]["content"][1] == {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{b64(content)}", "detail": "low"}}
    assert read[0] is prompt[0]
    assert prompt == before


@pytest.mark.parametrize(
    ("part", "read"),
    [
        ({"type": "image_url", "image_url": "cat.png"}, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64(PNG)}"}}),
        (
            {"type": "input_audio", "input_audio": {"path": "say.mp3"}},
            {"type": "input_audio", "input_audio": {"data": b64(FILES["say.mp3"][0]), "format": "mp3"}},
        ),
        (
            {"type": "file", "file": {"path": "page.pdf"}},
            {"type": "file", "file": {"filename": "page.pdf", "file_data": f"data:application/pdf;base64,{b64(FILES['page.pdf'][0])}"}},
        ),
        (
            {"type": "file", "file": {"path": "page.pdf", "filename": "terms.pdf"}},
            {"type": "file", "file": {"filename": "terms.pdf", "file_data": f"data:application/pdf;base64,{b64(FILES['page.pdf'][0])}"}},
        ),
    ],
)
def test_every_kind_of_part_may_name_a_file(folder, part, read):
    assert read_files(asking(part), folder)[1]["content"][1] == read


@pytest.mark.parametrize(
    "prompt",
    [
        "file:///etc/passwd",
        [{"role": "user", "content": "cat.png"}],
        [{"role": "user", "content": None}],
        [{"role": "user"}],
        asking({"type": "image_url", "image_url": {"url": "https://host/cat.png"}}),
        asking({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64(PNG)}"}}),
        asking({"type": "file", "file": {"file_id": "file-1"}}),
        asking({"type": "something", "something": {"path": "/etc/passwd"}}),
        asking("cat.png"),
        asking({"type": ["image_url"], "image_url": 3}),
    ],
)
def test_a_prompt_that_names_no_file_stays_what_it_is(folder, prompt):
    assert read_files(prompt, folder) is prompt
    assert fault_of_files(prompt, folder) is None


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("none.png", "the message names the file 'none.png', and .*none.png cannot be read: No such file"),
        ("sub", "is no file"),
        ("secret.png", "secret.png is neither a picture .* so it is not sent to a model"),
        ("empty.png", "is neither a picture"),
        ("large.png", "has 101 bytes; 0 MiB are the most"),
        ("a\0b.png", "cannot be read"),
        ("/etc/passwd", "/etc/passwd is neither a picture"),
    ],
)
def test_what_is_no_picture_is_not_sent(folder, name, told, monkeypatch):
    monkeypatch.setattr(media, "MOST_BYTES", 100)
    (folder / "sub").mkdir()
    (folder / "secret.png").write_text("root:x:0:0")
    (folder / "empty.png").touch()
    (folder / "large.png").write_bytes(PNG + b"\0" * (101 - len(PNG)))
    prompt = asking({"type": "image_url", "image_url": {"url": name}})
    if name == "/etc/passwd":
        monkeypatch.setattr(media, "MOST_BYTES", 1 << 20)
    with pytest.raises(BadSample, match=told):
        read_files(prompt, folder)
    assert fault_of_files(prompt, folder)


def test_the_log_keeps_hashes():
    hashed = f"sha256:{hashlib.sha256(PNG).hexdigest()},{len(PNG)} bytes"
    prompt = asking({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64(PNG)}", "detail": "low"}})
    prompt[1]["content"].append({"type": "input_audio", "input_audio": {"data": b64(PNG), "format": "wav"}})
    before = copy.deepcopy(prompt)
    kept = without_media(prompt)
    assert kept[1]["content"][1]["image_url"] == {"url": f"data:image/png;base64,{hashed}", "detail": "low"}
    assert kept[1]["content"][2]["input_audio"] == {"data": hashed, "format": "wav"}
    assert without_media(kept) == kept
    assert prompt == before


@pytest.mark.parametrize(
    "value",
    [
        "text",
        "data:image/png,plain",
        "see data:image/png;base64,AAAA in the text",
        3,
        None,
        {"a": [1, {"b": "c"}]},
        [],
        ("x",),
        {"input_audio": 3},
    ],
    ids=str,
)
def test_where_there_is_no_data_the_value_itself_comes_back(value):
    assert without_media(value) is value


@pytest.mark.parametrize("data", ["not base64 !", "\ud800", "=", "A" * 10_001])
def test_data_that_is_none_is_hashed_as_it_stands(data):
    assert without_media(f"data:image/png;base64,{data}").startswith("data:image/png;base64,sha256:")


@pytest.mark.parametrize(
    ("raw", "part"),
    [
        ({"type": "text", "text": "x"}, "x"),
        ("x", "x"),
        ({"type": "text", "text": None}, ""),
        (
            {"type": "image_url", "image_url": {"url": "https://h/a.png", "detail": "high"}},
            Media("image", url="https://h/a.png", detail="high"),
        ),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, Media("image", "image/png", "AAAA")),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}, Media("audio", "audio/mpeg", "AAAA")),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
            Media("file", "application/pdf", "AAAA", name="a.pdf"),
        ),
        ({"type": "file", "file": {"file_id": "f"}}, None),
        ({"type": "tool_use"}, None),
        (3, None),
    ],
)
def test_a_part_is_known_for_what_it_is(raw, part):
    assert part_of(raw) == part
