"""
The bundled evals and their data: what their READMEs say of them is so, and the rows keep the rules of `data/README.md`.
"""

import json
import re
import runpy
import shutil
from collections import Counter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"
FOLDERS = sorted(path.parent for path in DATA.glob("*/samples.jsonl"))
ENTRIES = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "registry" / "evals").glob("*.yaml"))}
GRADERS = {"Match", "Includes", "FuzzyMatch", "JsonMatch", "JsonValidator"}

each_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
each_entry = pytest.mark.parametrize("name", ENTRIES)


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def spec_of(name):
    return ENTRIES[name][ENTRIES[name][name]["id"]]


def grader_of(name):
    return spec_of(name)["class"].removeprefix("evalframe.evals.basic:")


def ideals_of(row):
    return row["ideal"] if isinstance(row["ideal"], list) else [row["ideal"]]


def question_of(row):
    return row["input"][-1]["content"]


def words_of(text):
    return re.findall(r"\w+", text.casefold())


def has_run(words, run):
    return any(words[start : start + len(run)] == run for start in range(len(words) - len(run) + 1))


def said_back(name, row):
    """Whether the question itself would be taken for the answer."""
    question = question_of(row)
    if grader_of(name) == "Match":
        return any(re.match(rf"{re.escape(ideal)}(?!\w)", question) for ideal in ideals_of(row))
    return any(has_run(words_of(question), words_of(ideal)) for ideal in ideals_of(row))


def test_there_are_at_least_twelve_evals_of_a_thousand_rows_and_each_grader_is_used():
    assert len(ENTRIES) >= 12
    assert {grader_of(name) for name in ENTRIES} == GRADERS
    assert 1000 <= sum(len(rows_of(folder / "samples.jsonl")) for folder in FOLDERS) <= 1200


@each_entry
def test_an_eval_is_one_file_of_two_entries_and_names_its_own_data(name):
    alias, spec = ENTRIES[name][name], spec_of(name)
    assert list(ENTRIES[name]) == [name, alias["id"]]
    assert re.fullmatch(rf"{name}\.dev\.v\d+", alias["id"])
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
    assert re.fullmatch(r"[^.]+\.", alias["description"]), "a description is one sentence"
    assert alias["metrics"][0] == "accuracy"
    assert spec["args"]["samples_jsonl"] == f"{name}/samples.jsonl"


def test_every_file_of_data_is_named_by_an_eval_and_the_other_way_about():
    named = {value for name in ENTRIES for key, value in spec_of(name)["args"].items() if key.endswith("_jsonl")}
    assert named == {path.relative_to(DATA).as_posix() for path in DATA.rglob("*.jsonl")}


def test_eval_sets_name_evals_that_exist_and_the_bundled_one_names_all():
    sets = {}
    for path in (ROOT / "registry" / "eval_sets").glob("*.yaml"):
        sets |= yaml.safe_load(path.read_text(encoding="utf-8"))
    assert sets["bundled"]["evals"] == sorted(ENTRIES)
    assert set(sets["smoke"]["evals"]) <= set(ENTRIES)
    assert {grader_of(name) for name in sets["smoke"]["evals"]} == GRADERS


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.jsonl")), ids=lambda path: path.relative_to(DATA).as_posix())
def test_a_file_is_utf8_with_one_object_a_line_and_a_newline_at_the_end(path):
    raw = path.read_bytes()
    assert raw.endswith(b"}\n")
    assert b"\r" not in raw
    assert not raw.startswith(b"\xef\xbb\xbf")
    assert all(isinstance(json.loads(line), dict) for line in raw.decode("utf-8").split("\n")[:-1])


@each_folder
def test_no_input_is_given_twice_and_each_is_a_system_message_and_a_question(folder):
    rows = rows_of(folder / "samples.jsonl")
    assert [text for text, count in Counter(json.dumps(row["input"]) for row in rows).items() if count > 1] == []
    for row in rows:
        assert [message["role"] for message in row["input"]] == ["system", "user"]
        assert all(message["content"].strip() == message["content"] != "" for message in row["input"])


@each_folder
def test_ideals_are_distinct_texts_and_none_is_empty(folder):
    for row in rows_of(folder / "samples.jsonl"):
        if grader_of(folder.name) == "JsonValidator":
            assert "ideal" not in row
            continue
        ideals = ideals_of(row)
        assert ideals
        assert len(set(ideals)) == len(ideals)
        assert all(isinstance(ideal, str) and ideal.strip() == ideal != "" for ideal in ideals)


@each_folder
def test_a_question_said_back_is_not_right(folder):
    if grader_of(folder.name) in ("JsonMatch", "JsonValidator"):
        texts = [question_of(row) for row in rows_of(folder / "samples.jsonl")]
        assert not any(text.lstrip()[0] in '{["' for text in texts)
        return
    assert [row for row in rows_of(folder / "samples.jsonl") if said_back(folder.name, row)] == []


def test_ideals_of_json_match_are_json_without_null():
    for name in ENTRIES:
        if grader_of(name) == "JsonMatch":
            for row in rows_of(DATA / name / "samples.jsonl"):
                assert all(json.loads(ideal) and "null" not in ideal for ideal in ideals_of(row))


@pytest.mark.parametrize("script", sorted(DATA.glob("*/generate.py")), ids=lambda script: script.parent.name)
def test_a_script_makes_its_files_again_byte_for_byte(script, tmp_path):
    runpy.run_path(str(shutil.copy(script, tmp_path)), run_name="__main__")
    made = {path.name: path.read_bytes() for path in tmp_path.glob("*.jsonl")}
    assert made == {path.name: path.read_bytes() for path in script.parent.glob("*.jsonl")}


@each_folder
def test_a_readme_states_eval_grader_rows_licence_and_a_row_that_is_there(folder):
    page = (folder / "README.md").read_text(encoding="utf-8")
    rows = rows_of(folder / "samples.jsonl")
    (sample,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert f"Size: {len(rows)} rows." in page
    assert f"`{folder.name}` (`registry/evals/{folder.name}.yaml`)" in page
    assert f"Graded by `{grader_of(folder.name)}`" in page
    assert "CC0-1.0" in page
    assert json.loads(sample) in rows
    assert (f"python data/{folder.name}/generate.py" in page) is (folder / "generate.py").exists()
    assert ("Written by hand; there is no script." in page) is not (folder / "generate.py").exists()


def test_the_table_of_the_data_page_agrees_with_the_folders():
    page = (DATA / "README.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| \[`([\w-]+)`\]\(([\w-]+)/README\.md\) \| .+ \| `(\w+)` \| (\d+) \| (script|hand) \|$", page, re.MULTILINE)
    counts = {folder.name: len(rows_of(folder / "samples.jsonl")) for folder in FOLDERS}
    for name, target, grader, rows, made in table:
        assert target == name
        assert grader == grader_of(name)
        assert int(rows) == counts[name]
        assert (made == "script") is (DATA / name / "generate.py").exists()
    assert [line[0] for line in table] == sorted(counts)
    assert f"{len(counts)} sets, {sum(counts.values()):,} rows" in page


def test_examples_before_a_question_are_a_question_and_its_answer_and_are_not_asked():
    args = spec_of("word-patterns")["args"]
    shots = [row["sample"] for row in rows_of(DATA / args["few_shot_jsonl"])]
    asked = {question_of(row) for row in rows_of(DATA / args["samples_jsonl"])}
    assert len(shots) >= args["num_few_shot"] == 4
    assert all([message["role"] for message in shot] == ["user", "assistant"] for shot in shots)
    assert asked.isdisjoint(shot[0]["content"] for shot in shots)


def test_the_letters_of_the_choice_questions_are_right_equally_often():
    rows = rows_of(DATA / "multiple-choice-science" / "samples.jsonl")
    assert Counter(row["ideal"] for row in rows) == dict.fromkeys("ABCD", len(rows) // 4)


def test_trivia_is_asked_in_several_languages():
    assert len({row["category"] for row in rows_of(DATA / "fuzzy-trivia" / "samples.jsonl")}) >= 3
