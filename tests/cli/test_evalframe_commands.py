import json
import re

import pytest


def test_list_tells_names_and_what_they_stand_for(workplace):
    done = workplace.run("evalframe", "list")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^ten +ten\.dev\.v0", done.stdout, re.MULTILINE)
    assert "ten.dev.v0 " not in done.stdout.replace("ten  ", "")
    assert "probe:Numbers" in workplace.run("evalframe", "list", "evals", "--versions").stdout
    assert "last-word" in workplace.run("evalframe", "list", "completion_fns").stdout
    assert {"name": "ten", "stands_for": "ten.dev.v0", "description": ""} in json.loads(workplace.run("evalframe", "list", "--json").stdout)


def test_list_tells_what_cannot_be_used(workplace):
    (workplace.folder / "R" / "evals" / "odd.yaml").write_text("odd: {class: 5}\nworse: [1]\nnothing:\n", encoding="utf-8")
    done = workplace.run("evalframe", "list")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^worse .*cannot be used", done.stdout, re.MULTILINE)


def test_show_tells_the_chain_the_class_and_the_data(workplace):
    done = workplace.run("evalframe", "show", "ten")
    assert done.returncode == 0, done.stderr
    assert "ten -> ten.dev.v0" in done.stdout
    assert "probe:Numbers" in done.stdout
    assert str(workplace.folder / "R" / "data" / "ten" / "s.jsonl") in done.stdout
    assert "Right if the last word comes back." in done.stdout


def test_show_keeps_secrets(workplace):
    (workplace.folder / "R" / "completion_fns" / "k.yaml").write_text(
        "k: {class: 'probe:LastWord', args: {api_key: sk-123456}}\n", encoding="utf-8"
    )
    done = workplace.run("evalframe", "show", "k")
    assert "sk-123456" not in done.stdout
    assert "***" in done.stdout


def test_show_of_an_unknown_name_tells_the_closest(workplace):
    done = workplace.run("evalframe", "show", "tem")
    assert done.returncode == 2
    assert "Closest: ten" in done.stderr


def test_validate_tells_all_faults_with_their_places(workplace):
    workplace.add_eval("bad", [{"input": "x"}], cls="probe:Nobody")
    (workplace.folder / "R" / "data" / "ten" / "s.jsonl").write_text('{"input": "Say 1", "ideal": "1"}\n[1]\n{"a"\n', encoding="utf-8")
    done = workplace.run("evalframe", "validate")
    assert done.returncode == 2
    assert "s.jsonl:2" in done.stdout
    assert "s.jsonl:3" in done.stdout
    assert "Nobody" in done.stdout
    assert "faults found" in done.stderr


def test_validate_of_what_is_right_is_quiet(workplace):
    done = workplace.run("evalframe", "validate", "ten")
    assert (done.returncode, done.stdout) == (0, "")
    assert "1 eval with 10 rows checked, 0 faults found" in done.stderr


@pytest.mark.parametrize(("arguments", "code", "told"), [
    ([], 2, "usage"), (["--version"], 0, r"\d+\.\d+"), (["lst"], 2, "invalid choice"), (["list", "nonsense"], 2, "invalid choice"),
])  # fmt: skip
def test_the_command_explains_itself(workplace, arguments, code, told):
    done = workplace.run("evalframe", *arguments, registry=False)
    assert done.returncode == code
    assert re.search(told, done.stdout + done.stderr)


def test_validate_looks_at_the_settings_that_an_eval_asks_for(workplace):
    path = workplace.folder / "R" / "evals" / "ten.yaml"
    spec = json.loads(path.read_text(encoding="utf-8"))
    spec["ten.dev.v0"]["run"] = {"fail_on_eror": False}
    path.write_text(json.dumps(spec), encoding="utf-8")
    done = workplace.run("evalframe", "validate", "ten")
    assert done.returncode == 2
    assert 'no setting "fail_on_eror"' in done.stdout
