"""
Every page of the docs does what it says: its files are written, its commands are run, its outputs are compared.

A block of yaml, jsonl, json or python under a line that ends in "`path`:" is a file. A block of sh is run in the page's own folder. A block
of text under it is what it prints; "…" stands for what differs from run to run. Commands that install are left to .ci/run.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from loopback import ModelStub, refused, said

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"(?P<before>[^\n]*)\n\n?```(?P<kind>\w+)\n(?P<body>.*?)```", re.DOTALL)
FILE = re.compile(r"`(?P<path>[^`]+)`:$")
ELLIPSIS = "…"


def blocks(page):
    for found in BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield found["before"], found["kind"], found["body"]


def matches(shown, printed):
    pattern = re.escape(shown.strip()).replace(re.escape(ELLIPSIS), ".*?")
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


@pytest.fixture
def environment():
    with ModelStub(lambda _number, _body: said("I do not know.")) as stub:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        yield {**os.environ, "PATH": path, "OPENAI_BASE_URL": stub.base_url, "OPENAI_API_KEY": "sk-test-0000", "COLUMNS": "100"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_does_what_it_says(page, tmp_path, environment):
    printed = None
    for before, kind, body in blocks(page):
        named = FILE.search(before)
        if named and kind in ("yaml", "jsonl", "json", "python", "csv"):
            path = tmp_path / named["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body, encoding="utf-8")
        elif kind == "python":
            done = subprocess.run([sys.executable, "-c", body], cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            printed = done.stdout
        elif kind == "sh":
            if "pip install" in body:
                printed = None
                continue
            done = subprocess.run(["bash", "-c", body], cwd=tmp_path, env=environment, capture_output=True, text=True)
            printed = done.stdout + done.stderr
            assert done.returncode in (0, 1, 2), printed
            assert "Traceback" not in printed
        elif kind == "text" and printed is not None:
            assert matches(body, printed), f"{page.name} shows\n{body}\nbut this was printed:\n{printed}"


@pytest.mark.slow
@pytest.mark.model
def test_the_first_run_prints_what_the_readme_shows(tmp_path):
    found = list(blocks(ROOT / "README.md"))
    number = next(number for number, (_, kind, body) in enumerate(found) if kind == "sh" and "local/smollm2" in body)
    command, shown = found[number][2].partition("&&")[2], found[number + 1][2]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # on another processor the model may answer a little differently, so digits may differ
    alike = [re.sub(r"\d+", "0", text) for text in (shown, done.stderr + done.stdout)]
    assert matches(*(re.sub(r" +", " ", text) for text in alike)), done.stderr + done.stdout


def rows_of_errors():
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    table = page.partition("| the other reading |")[2].partition("\n\n")[0].splitlines()[2:]
    for line in table:
        flags, accuracy, other, code = (cell.strip() for cell in line.strip("|").split("|"))
        yield pytest.param("" if flags == "(none)" else flags.strip("`"), accuracy, other, int(code), id=flags.strip("`()"))


def of_how_many(report, name, count):
    return f"{report[name]} ({round(report[name] * report[count])}/{report[count]})"


@pytest.mark.parametrize(("flags", "accuracy", "other", "code"), list(rows_of_errors()))
def test_the_table_of_errors_is_what_a_run_reports(flags, accuracy, other, code, tmp_path, capsys, monkeypatch):
    from evalframe.cli.oaieval import main  # case DOC-03

    def answer(_number, body):
        number = body["messages"][-1]["content"][-1]
        return refused(500) if number == "4" else said(number)

    files = {path["path"]: body for before, _, body in blocks(ROOT / "docs" / "errors.md") if (path := FILE.search(before))}
    for name in ("my/data/numbers/samples.jsonl", "my/evals/numbers.yaml"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(files[name], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with ModelStub(answer) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0000")
        done = main(["gpt-4o-mini", "numbers", "--registry_path", "my", "--max_retries", "0", "--json", *flags.split()])
    report = json.loads(capsys.readouterr().out)["report"]
    name, *_ = (key for key in report if key in ("accuracy_errors_as_wrong", "accuracy_errors_left_out"))
    assert of_how_many(report, "accuracy", "n") == accuracy
    assert f"`{name}` {of_how_many(report, name, f'{name}_n')}" == other
    assert done == code


def test_what_a_resumed_run_must_agree_in_is_in_the_docs():
    from evalframe.runs.config import RunConfig

    page = (ROOT / "docs" / "resume.md").read_text(encoding="utf-8")
    agree = page.partition("## What must agree")[2].partition("| may grow |")[0]
    grow = page.partition("| may grow |")[2].partition("\n")[0]
    bearing = {name: known for name, known in RunConfig.settings().items() if known.bears_on_results}
    assert set(re.findall(r"`(\w+)`", agree)) == {name for name, known in bearing.items() if not known.may_grow}
    assert set(re.findall(r"`(\w+)`", grow)) == {name for name, known in bearing.items() if known.may_grow}


def test_every_setting_is_in_the_docs():
    from evalframe.runs.config import RunConfig

    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    for name, known in RunConfig.settings().items():
        assert f"`{known.flag or '--' + name}`" in page, name
        assert known.variable is None or f"`{known.variable}`" in page, known.variable


def test_every_link_leads_somewhere():
    for page in [*PAGES, *(path for path in ROOT.rglob("README.md") if ".venv" not in str(path) and "node_modules" not in str(path))]:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"
