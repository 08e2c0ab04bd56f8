import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from number_rows import numbers

SCRIPTS = Path(sys.executable).parent

PROBE = '''
import time
import evalframe


class Numbers(evalframe.Eval):
    """Right if the last word comes back."""

    def eval_sample(self, sample, rng):
        (answer,) = self.completion_fn(prompt=sample["input"]).get_completions()
        evalframe.record_match(answer == sample["ideal"], expected=sample["ideal"], picked=answer, sampled=answer)

    def run(self, recorder):
        self.eval_all_samples(recorder, self.get_samples())
        correct = [event.data["correct"] for event in recorder.get_events("match")]
        return {"accuracy": sum(correct) / len(correct) if correct else None, "n": len(correct)}


class LastWord:
    def __init__(self, delay_s=0.0, fail=(), wrong=(), hang_from=None):
        self.delay_s, self.fail, self.wrong, self.hang_from = delay_s, fail, wrong, hang_from

    def __call__(self, prompt, **options):
        number = int(prompt.split()[-1])
        time.sleep(3600 if self.hang_from is not None and number >= self.hang_from else self.delay_s)
        if number in self.fail:
            raise RuntimeError(f"no answer to {number} \\x1b[31m")
        return evalframe.Completion(["wrong \\x1b]0;title\\x07 ]]> \\x00 <b>&" if number in self.wrong else str(number)])
'''


PLANNED = '''
import json, os, time, threading
import evalframe

FOLDER = os.path.dirname(os.path.abspath(__file__))


class Planned:
    """Says what the file plan.json says, and keeps a line of every call in calls.jsonl, before it answers."""

    model = "planned"

    def __init__(self, **told):
        self.told = told

    def __call__(self, prompt, **options):
        number = int(prompt.split()[-1])
        with open(os.path.join(FOLDER, "plan.json"), encoding="utf-8") as file:
            plan = json.load(file)
        self.note("begin", number)
        try:
            time.sleep(3600 if number >= plan.get("hang_from", 10**9) else plan.get("delay_s", 0))
            if number in plan.get("fail", ()):
                raise RuntimeError(f"no answer to {number}")
            if number in plan.get("kill", ()):
                os.kill(os.getpid(), 9)
            answer = "wrong" if number in plan.get("wrong", ()) else str(number)
        finally:
            self.note("end", number)
        evalframe.record_sampling(prompt, answer, model="planned", usage={"input_tokens": 10, "output_tokens": 1})
        return evalframe.Completion([answer])

    def note(self, what, number):
        with open(os.path.join(FOLDER, "calls.jsonl"), "ab", buffering=0) as file:
            file.write(json.dumps([what, number, os.getpid()]).encode() + b"\\n")
'''


class Workplace:
    """A folder with a registry in it, and the commands run there."""

    def __init__(self, folder):
        self.folder = folder
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("EVAL", "OPENAI"))},
            "HOME": str(folder / "home"),
            "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
        }
        for kind in ("evals", "completion_fns", "eval_sets"):
            (folder / "R" / kind).mkdir(parents=True)
        (folder / "R" / "planned.py").write_text(PLANNED, encoding="utf-8")
        (folder / "R" / "completion_fns" / "planned.yaml").write_text("planned: {class: 'planned:Planned'}\n", encoding="utf-8")
        self.set_plan("")
        (folder / "R" / "probe.py").write_text(PROBE, encoding="utf-8")
        (folder / "R" / "completion_fns" / "last-word.yaml").write_text("last-word: {class: 'probe:LastWord'}\n", encoding="utf-8")

    def add_eval(self, name, rows, cls="probe:Numbers", **args):
        spec = {name: {"id": f"{name}.dev.v0"}, f"{name}.dev.v0": {"class": cls, "args": {"samples_jsonl": f"{name}/s.jsonl", **args}}}
        (self.folder / "R" / "evals" / f"{name}.yaml").write_text(json.dumps(spec), encoding="utf-8")
        data = self.folder / "R" / "data" / name
        data.mkdir(parents=True)
        (data / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def set_plan(self, plan):
        """What the completion function `planned` does from now on: "name=value,name=value"."""
        given = dict(part.split("=", 1) for part in plan.split(";") if part)
        text = json.dumps({name: json.loads(value) for name, value in given.items()})
        (self.folder / "R" / "plan.json").write_text(text, encoding="utf-8")

    def calls(self, what="begin"):
        path = self.folder / "R" / "calls.jsonl"
        return [line[1] for line in map(json.loads, path.read_bytes().splitlines()) if line[0] == what] if path.exists() else []

    def asked(self):
        """How often each number was asked for."""
        return dict(sorted(Counter(self.calls()).items()))

    def most_at_once(self):
        at_once = most = 0
        for what, *_ in map(json.loads, (self.folder / "R" / "calls.jsonl").read_bytes().splitlines()):
            at_once += 1 if what == "begin" else -1
            most = max(most, at_once)
        return most

    def add_set(self, name, evals):
        (self.folder / "R" / "eval_sets" / f"{name}.yaml").write_text(json.dumps({name: {"evals": evals}}), encoding="utf-8")

    def run(self, *command, env=None, registry=True, **more):
        words = [str(word) for word in command] + (["--registry_path", "R"] if registry else [])
        return subprocess.run(words, cwd=self.folder, env={**self.env, **(env or {})}, capture_output=True, text=True, timeout=120, **more)

    def start(self, *command, env=None):
        words = [*map(str, command), "--registry_path", "R"]
        return subprocess.Popen(
            words, cwd=self.folder, env={**self.env, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def logs(self, folder="evallogs"):
        return sorted(path for path in (self.folder / folder).glob("*.jsonl") if not path.name.endswith(".set.jsonl"))

    def lines(self, path):
        return [json.loads(line) for line in Path(path).read_bytes().splitlines()]


@pytest.fixture
def workplace(tmp_path):
    made = Workplace(tmp_path)
    made.add_eval("ten", numbers(10))
    return made
