import json
import os
import subprocess
import sys

import pytest

from evalframe.storage.cache import AnswerCache


@pytest.fixture
def command(tmp_path):
    def call(*arguments, **environment):
        told = {**os.environ, "EVALFRAME_ANSWER_CACHE_DIR": str(tmp_path / "c"), **environment}
        return subprocess.run(
            [sys.executable, "-m", "evalframe.cli.main", "cache", *arguments],
            capture_output=True, text=True, env=told, cwd=tmp_path, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    return call


@pytest.fixture
def filled(tmp_path):
    with AnswerCache(tmp_path / "c") as cache:
        for number in range(5):
            cache.put(f"{number:064x}", {"n": number}, model="m-1" if number else "m\x1b[31m")
    return tmp_path / "c"


def test_the_numbers_are_a_table_without_control_codes(command, filled):
    done = command("stats")
    assert done.returncode == 0
    assert "5 answers, " in done.stdout
    assert "m-1              4" in done.stdout
    assert "\x1b" not in done.stdout


def test_the_numbers_are_json_when_asked_for(command, filled):
    told = json.loads(command("stats", "--json").stdout)
    assert (told["answers"], told["models"]["m-1"]) == (5, 4)


def test_a_cache_that_is_not_there_is_empty(command):
    done = command("stats")
    assert (done.returncode, "0 answers" in done.stdout) == (0, True)


def test_nothing_is_thrown_out_unless_somebody_says_yes(command, filled):
    done = command("clear")
    assert done.returncode == 2
    assert "5 answers in" in done.stderr
    assert "Say --yes." in done.stderr
    assert "5 answers" in command("stats").stdout


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ((), "5 answers thrown out"),
        (("--model", "m-1"), "4 answers thrown out"),
        (("--older_than", "1h"), "0 answers thrown out"),
        (("--json",), '{"cleared": 5}'),
    ],
)
def test_answers_are_thrown_out(command, filled, asked, said):
    done = command("clear", "--yes", *asked)
    assert (done.returncode, done.stdout.strip()) == (0, said)


def test_an_age_that_is_none_is_told(command, filled):
    done = command("clear", "--yes", "--older_than", "soon")
    assert (done.returncode, "--older_than takes an age such as 30d" in done.stderr) == (2, True)


def test_a_file_of_another_program_is_left_alone(command, tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "answers.sqlite").write_text("no database")
    done = command("clear", "--yes")
    assert done.returncode == 2
    assert "cannot use the cache" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "c" / "answers.sqlite").read_text() == "no database"
