import json
import os
import sys
from pathlib import Path

import pytest


class Project:
    """A folder with one eval, "count", that asks for numbers; and what it takes to run commands there."""

    def __init__(self, folder, rows):
        self.folder = folder
        registry = folder / "R"
        (registry / "evals").mkdir(parents=True)
        (registry / "data").mkdir()
        spec = {"class": "evalframe.evals.basic:Match", "args": {"samples_jsonl": "count.jsonl"}}
        (registry / "evals" / "count.yaml").write_text(
            json.dumps({"count": {"id": "count.dev.v0"}, "count.dev.v0": spec}), encoding="utf-8"
        )
        lines = [{"input": [{"role": "user", "content": f"Say the number {number}"}], "ideal": str(number)} for number in range(rows)]
        (registry / "data" / "count.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    def command(self, *more):
        return [str(Path(sys.executable).parent / "oaieval"), "gpt-4o-mini", "count", "--registry_path", "R", *map(str, more)]

    def environment(self, stub, **more):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("EVAL", "OPENAI"))}
        return {**clean, "OPENAI_BASE_URL": stub.base_url, "OPENAI_API_KEY": "sk-test-0000", **more}


@pytest.fixture
def project(tmp_path):
    return lambda rows: Project(tmp_path, rows)
