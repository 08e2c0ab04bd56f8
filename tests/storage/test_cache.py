import json
import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from evalframe.core.errors import BadSetting
from evalframe.storage import cache as module
from evalframe.storage.cache import AnswerCache

KEY = "ab" * 32


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "made" / "when needed"


@pytest.fixture
def cache(folder):
    with AnswerCache(folder) as opened:
        yield opened


def script(code, *arguments, **more):
    """A process that runs this code on these arguments."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", **more)


def finished(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def raw(path):
    return closing(sqlite3.connect(path, isolation_level=None))


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"completions": ["Paris"], "usage": {"input_tokens": 3}, "raw": None},
        {"completions": ["Ünïcode ☃ \U0001f600", "\ud800 alone", "\0 \u2028 \r\n"]},
        {"long": "x" * 3_000_000},
        {"big": 2**70, "small": -0.5, "deep": [[[{"a": [None, True]}]]]},
    ],
    ids=["empty", "answer", "odd characters", "long", "numbers"],
)
def test_what_was_put_comes_back_now_and_after_closing(folder, value):
    with AnswerCache(folder) as cache:
        assert cache.get(KEY) is None
        cache.put(KEY, value)
        assert cache.get(KEY) == value
        assert cache.get(KEY[::-1]) is None
    with AnswerCache(str(folder)) as again:
        assert again.get(KEY) == value


def test_a_later_answer_takes_the_place_of_the_earlier(cache):
    cache.put(KEY, {"n": 1})
    cache.put(KEY, {"n": 2})
    assert cache.get(KEY) == {"n": 2}


def test_the_file_holds_hashes_and_answers_and_nothing_else(cache):
    cache.put(KEY, {"text": "Paris"})
    with raw(cache.path) as file:
        assert [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")] == ["answers"]
        assert [(key, json.loads(value)) for key, value in file.execute("SELECT key, value FROM answers")] == [(KEY, {"text": "Paris"})]
        assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("value", [b"", b"{torn", b"\xff\xfe", b"[1]", b"null", b"[" * 100_000, 17, "text"])
def test_a_value_that_cannot_be_read_is_no_value_and_is_mended(cache, value):
    cache.put(KEY, {"n": 1})
    with raw(cache.path) as file:
        file.execute("UPDATE answers SET value = ?", (value,))
    assert cache.get(KEY) is None
    cache.put(KEY, {"n": 2})
    assert cache.get(KEY) == {"n": 2}


# ---------------------------------------------------------------- files that cannot be used


def of_another_program(path):
    with raw(path) as file:
        file.execute("CREATE TABLE bookmarks (url)")


def marked_by_another_program(path):
    with raw(path) as file:
        file.execute("PRAGMA application_id = 1")


def of_a_newer_evalframe(path):
    AnswerCache(path.parent).close()
    with raw(path) as file:
        file.execute("PRAGMA user_version = 9")


def filled(path):
    with AnswerCache(path.parent) as cache:
        for number in range(200):
            cache.put(f"{number:064x}", {"text": "x" * 500})
    return path.read_bytes()


def damaged(path):
    whole = filled(path)
    path.write_bytes(whole[:8192] + b"\x5a" * 8192 + whole[16384:])


def cut_short(path):
    whole = filled(path)
    path.write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda path: path.write_bytes(b"not a database at all, but long enough to have a head " * 99), "file is not a database"),
        (lambda path: path.write_text("short", encoding="utf-8"), "file is not a database"),
        (lambda path: path.mkdir(), "unable to open database file"),
        (of_another_program, "made by another program"),
        (marked_by_another_program, "made by another program"),
        (of_a_newer_evalframe, r"made by a newer evalframe \(format 9, and this one knows 2\)"),
        (damaged, "damaged|malformed"),
        (cut_short, "damaged|malformed"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_at_opening_and_left_as_it_is(tmp_path, spoil, told):
    path = tmp_path / module.FILE_NAME
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(BadSetting, match=f"cannot use the cache .*{module.FILE_NAME}: .*({told})") as caught:
        AnswerCache(tmp_path)
    assert len(caught.value.do) == 3
    if spoil not in (damaged, cut_short):
        assert before is None or path.read_bytes() == before


def test_another_programs_file_stays_in_the_mode_it_was_in(tmp_path):
    of_another_program(tmp_path / module.FILE_NAME)
    with pytest.raises(BadSetting):
        AnswerCache(tmp_path)
    with raw(tmp_path / module.FILE_NAME) as file:
        assert file.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert [path.name for path in tmp_path.iterdir()] == [module.FILE_NAME]


def test_an_empty_file_is_one_that_is_to_be_filled(tmp_path):
    (tmp_path / module.FILE_NAME).touch()
    with AnswerCache(tmp_path) as cache:
        cache.put(KEY, {"n": 1})
        assert cache.get(KEY) == {"n": 1}


@pytest.mark.parametrize("place", ["file/inside", "nul\0", "s3://bucket/answers"])
def test_a_folder_that_cannot_be_is_told(tmp_path, place):
    (tmp_path / "file").touch()
    with pytest.raises(BadSetting, match="cannot use the cache"):
        AnswerCache(place if "://" in place else tmp_path / place)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to this user")
def test_a_folder_that_may_not_be_written_to_is_told(tmp_path):
    AnswerCache(tmp_path).close()
    tmp_path.chmod(0o500)
    (tmp_path / module.FILE_NAME).chmod(0o400)
    try:
        with pytest.raises(BadSetting, match="cannot use the cache"):
            AnswerCache(tmp_path)
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_full_disk_is_told_at_opening(tmp_path, is_new):
    if not is_new:
        AnswerCache(tmp_path).close()
    code = """
import resource, sys
from evalframe.core.errors import BadSetting
from evalframe.storage.cache import AnswerCache
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    AnswerCache(sys.argv[1])
except BadSetting as error:
    print(error)
"""
    assert "cannot use the cache" in finished(script(code, tmp_path))


def test_what_cannot_be_written_later_is_told_and_what_is_there_stays(folder):
    with AnswerCache(folder, busy_timeout_s=0.05) as cache:
        cache.put(KEY, {"n": 1})
        with raw(cache.path) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(BadSetting, match=r"cannot use the cache .*: database is locked\. *"):
                cache.put(KEY, {"n": 2})
            assert cache.get(KEY) == {"n": 1}  # who reads waits for nobody
        cache.put(KEY, {"n": 3})
        assert cache.get(KEY) == {"n": 3}


def test_a_closed_cache_says_so(folder):
    cache = AnswerCache(folder)
    cache.close()
    cache.close()
    with pytest.raises(BadSetting, match="closed"):
        cache.get(KEY)


# ---------------------------------------------------------------- many at once

WRITER = """
import sys
from evalframe.storage.cache import AnswerCache
cache = AnswerCache(sys.argv[1])
number = int(sys.argv[2])
while True:
    cache.put(f"{number:064x}", {"text": f"{number} " * 2000})
    print(number, flush=True)
    number += 1
"""


def test_a_process_killed_in_the_middle_of_a_write_harms_nothing(tmp_path):
    kept = []
    for start in (0, 1000, 2000):
        writer = script(WRITER, tmp_path, start)
        kept += [int(writer.stdout.readline()) for _ in range(25)]
        writer.kill()
        kept += [int(line) for line in writer.communicate()[0].split("\n")[:-1]]  # what it had put before the signal came
        with AnswerCache(tmp_path) as cache:
            assert all(cache.get(f"{number:064x}") == {"text": f"{number} " * 2000} for number in kept)
    assert len(kept) >= 75


CROWD = """
import sys
from evalframe.storage.cache import AnswerCache
sys.stdin.readline()
with AnswerCache(sys.argv[1]) as cache:
    for number in range(150):
        key = f"{number:064x}"
        found = cache.get(key)
        assert found is None or found == {"n": number, "text": "x" * 100 * number}, found
        cache.put(key, {"n": number, "text": "x" * 100 * number})
        cache.put(f"{sys.argv[2]}{number}", {"n": number})
"""


def test_several_processes_open_and_write_one_file_at_once(tmp_path):
    crowd = [script(CROWD, tmp_path / "new", name, stdin=subprocess.PIPE) for name in "abcd"]
    for process in crowd:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in crowd:
        finished(process)
    with AnswerCache(tmp_path / "new") as cache:
        assert all(cache.get(f"{name}{number}") == {"n": number} for name in "abcd" for number in range(150))
        assert all(cache.get(f"{number:064x}")["n"] == number for number in range(150))


def test_many_threads_share_one_cache(cache):
    def work(thread):
        for number in range(50):
            cache.put(f"{thread}-{number}", {"n": number})
            cache.put(KEY, {"n": number})
            assert cache.get(f"{thread}-{number}") == {"n": number}
            assert set(cache.get(KEY)) == {"n"}

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no fork")
def test_a_forked_process_leaves_the_file_alone(tmp_path):
    code = """
import os, sys
from evalframe.storage.cache import AnswerCache
cache = AnswerCache(sys.argv[1])
cache.put("a", {"n": 1})
child = os.fork()
if child == 0:
    cache.put("b", {"n": 2})
    found = cache.get("a")
    cache.close()
    os._exit(0 if found is None else 1)
assert os.waitpid(child, 0)[1] == 0
assert cache.get("a") == {"n": 1} and cache.get("b") is None
cache.put("c", {"n": 3})
cache.close()
"""
    finished(script(code, tmp_path))
    with AnswerCache(tmp_path) as cache:
        assert cache.get("c") == {"n": 3}


# ---------------------------------------------------------------- age, numbers, throwing out


class Clock:
    """Seconds since 1970 that pass only when told to."""

    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_an_answer_that_has_expired_is_given_no_more_and_replaced(folder, clock):
    with AnswerCache(folder, expires_s=3600, now=clock) as cache, AnswerCache(folder, now=clock) as patient:
        cache.put(KEY, {"n": 1})
        clock.now += 3599
        assert cache.get(KEY) == {"n": 1}
        clock.now += 2
        assert cache.get(KEY) is None
        assert patient.get(KEY) == {"n": 1}
        cache.put(KEY, {"n": 2})
        assert cache.get(KEY) == {"n": 2}


def test_the_numbers_tell_models_and_ages(folder, clock):
    with AnswerCache(folder, now=clock) as cache:
        assert cache.stats() == {
            "path": str(cache.path),
            "bytes": cache.path.stat().st_size,
            "answers": 0,
            "models": {},
            "oldest": None,
            "newest": None,
        }
        for number, model in enumerate(["a", "b", "b", None]):
            cache.put(f"{number:064x}", {}, model=model)
            clock.now += 10
        told = cache.stats()
        assert (told["answers"], told["models"]) == (4, {"b": 2, "": 1, "a": 1})
        assert (told["oldest"], told["newest"]) == (1_800_000_000.0, 1_800_000_030.0)


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({}, []),
        ({"older_than_s": 15}, [2, 3]),
        ({"model": "b"}, [0, 2]),
        ({"older_than_s": 15, "model": "b"}, [0, 2, 3]),
        ({"model": "c"}, [0, 1, 2, 3]),
    ],
)
def test_what_is_thrown_out_is_what_was_asked_for(folder, clock, asked, left):
    with AnswerCache(folder, now=clock) as cache:
        for number in range(4):
            clock.now += 10
            cache.put(f"{number:064x}", {"n": number}, model="ab"[number % 2])
        assert cache.clear(**asked) == 4 - len(left)
        assert [number for number in range(4) if cache.get(f"{number:064x}")] == left


def test_throwing_out_gives_the_room_back(folder):
    with AnswerCache(folder) as cache:
        for number in range(50):
            cache.put(f"{number:064x}", {"text": "x" * 20_000})
        before = sum(path.stat().st_size for path in folder.iterdir())
        assert cache.clear() == 50
        assert sum(path.stat().st_size for path in folder.iterdir()) < before / 5


def test_throwing_out_harms_nobody_who_is_at_work(folder):
    putting = """
import sys, time
from evalframe.storage.cache import AnswerCache
with AnswerCache(sys.argv[1]) as cache:
    print("begun", flush=True)
    for number in range(300):
        key = f"{sys.argv[2]}{number:060x}"
        cache.put(key, {"n": number})
        assert cache.get(key) in ({"n": number}, None)
"""
    with AnswerCache(folder) as cache:
        processes = [script(putting, folder, name) for name in ("aaaa", "bbbb")]
        for process in processes:
            process.stdout.readline()
        for _ in range(20):
            cache.clear()
        for process in processes:
            finished(process)  # which fails if one of them was harmed


def old_file(folder, answers=1):
    """A file as the first format had it."""
    folder.mkdir(parents=True)
    with raw(folder / "answers.sqlite") as file:
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("CREATE TABLE answers (key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL)")
        file.execute(f"PRAGMA application_id = {module.APPLICATION_ID}")
        file.execute("PRAGMA user_version = 1")
        for number in range(answers):
            file.execute("INSERT INTO answers VALUES (?, ?)", (f"{number:064x}", b'{"n": %d}' % number))


def test_a_file_of_the_first_format_keeps_its_answers(folder, clock):
    old_file(folder)
    with AnswerCache(folder, expires_s=60, now=clock) as cache:
        assert cache.get("0" * 64) == {"n": 0}
        clock.now += 61
        assert cache.get("0" * 64) is None  # it counts as put when the file was brought up
    with raw(folder / "answers.sqlite") as file:
        assert file.execute("PRAGMA user_version").fetchone() == (module.FORMAT,)


def test_two_processes_may_bring_it_up_at_once(folder):
    old_file(folder, answers=2000)
    opening = "import sys; from evalframe.storage.cache import AnswerCache\nwith AnswerCache(sys.argv[1]) as c: print(c.stats()['answers'])"
    assert [finished(process) for process in [script(opening, folder) for _ in range(4)]] == ["2000\n"] * 4
