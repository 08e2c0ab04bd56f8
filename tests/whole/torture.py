"""
Runs that are killed at random moments and taken up again, until they are complete; and what must hold at each of these moments.

A seed decides everything but the machine's own timing: the eval, the server's faults, the settings, how each process ends. The server
lives in the test's process and outlives the kills; each process of the run asks with a key of its own, so that the server knows who asked.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random

from loopback import Answer, ModelStub, refused, said

from evalframe.logs.run_log import read_log

SCRIPTS = Path(sys.executable).parent
PATIENCE_S = 120.0
"""Seconds after which a process that does not end is a failure of its own."""
RETRIES = 3
"""Of the undisturbed run, and of the last process of each other; no easy prompt meets more faults than these."""
SURELY_KILLED = 3
"""The first processes of each run, ended by -9; how later ones end is drawn."""
MOST_BETWEEN_KILLS = 90
"""Requests of a process that is killed in the middle."""
FAULTY = 0.25
"""Share of requests that meet one of the five faults; one of them is only slow, so that a fifth are refused or lost."""

PARTS = '''
import hashlib
from random import Random

import evalframe
from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.evals.basic import Match
from evalframe.resilience.retry import RetryPolicy


class Impatient(OpenAIChatCompletionFn):
    """The real client, with short waits between its tries."""

    def __init__(self, model, *, max_retries=None, max_connections=10, timeout_s=None):
        policy = RetryPolicy(max_tries=(max_retries or 0) + 1, first_wait_s=0.02)
        super().__init__(model, max_connections=max_connections, timeout_s=timeout_s, retry_policy=policy)


class Nearness:
    """A verdict, and a number whose sum depends on the order in which it is added up carelessly."""

    def __call__(self, completion, sample):
        digest = hashlib.sha256(f"{completion} to {sample.input}".encode()).digest()
        nearness = Random(digest).uniform(0.0, 1.0) * 10.0 ** (digest[0] % 9 - 4)
        return evalframe.Grade(float(completion in sample.ideals), picked=completion, metrics={"nearness": nearness})


class Wandering(Match):
    """Asks with a number drawn from the sample's randomness, so that a server can tell epochs apart."""

    def prompt(self, sample, rng):
        return f"Draw {rng.randrange(10**9)} and {sample.input}"


class Talkative(evalframe.Eval):
    """Records its verdict, and only then asks a second time: a process can die between a verdict and the end of its sample."""

    def ask(self, prompt):
        (answer,) = self.completion_fn(prompt=prompt).get_completions()
        return answer

    def eval_sample(self, sample, rng):
        drawn = rng.randrange(10**9)
        answer = self.ask(f"Draw {drawn} and {sample['input']}")
        evalframe.record_match(answer == sample["ideal"], expected=sample["ideal"], picked=answer)
        evalframe.record_metrics(length=len(self.ask(f"Again: draw {drawn} and {sample['input']}")) / 7)
        return answer

    def run(self, recorder):
        self.eval_all_samples(recorder, self.get_samples())
        verdicts = [event.data["correct"] for event in recorder.get_events("match")]
        lengths = sorted(recorder.get_scores("length"))
        return {"accuracy": sum(verdicts) / len(verdicts) if verdicts else None, "n": len(verdicts), "length": sum(lengths)}
'''


@dataclass(frozen=True)
class Asked:
    """
    An eval under torture.

    Args:
        cls: Its class.
        args: Its arguments, beside the data.
        rows: How many samples.
        epochs: How often each.
        flags: What the command line says besides.
        metric: Whether each sample records a number, too.
    """

    cls: str
    args: dict = field(default_factory=dict)
    rows: int = 300
    epochs: int = 1
    flags: tuple = ()
    metric: bool = False

    def prompts(self, name):
        """What a sample and epoch asks, in its order: {(sample_id, epoch): (prompt, ...)}; its randomness as the documents spell it."""
        asked = {}
        for index in range(self.rows):
            for epoch in range(1, self.epochs + 1):
                sample_id, text = f"{name}.dev.{index}", f"say the number {index}"
                seed = f"{sample_id}:20220722" if epoch == 1 else f"{sample_id}:20220722:{epoch}"
                drawn = Random(seed.encode()).randrange(10**9)
                if self.cls == "parts:Talkative":
                    asked[sample_id, epoch] = (f"Draw {drawn} and {text}", f"Again: draw {drawn} and {text}")
                else:
                    asked[sample_id, epoch] = (f"Draw {drawn} and {text}" if self.cls == "parts:Wandering" else text,)
        return asked


EVALS = {
    "plain": Asked("evalframe.evals.basic:Match"),
    "graded": Asked("evalframe.evals.graded:Graded", {"grader": "parts:Nearness"}, metric=True),
    "repeated": Asked("parts:Wandering", rows=100, epochs=3, flags=("--epochs", "3", "--epochs_reducer", "pass_at_2,at_least_2")),
    "talkative": Asked("parts:Talkative", metric=True),
}


class Server:
    """
    A model server with faults that are drawn from a seed, by prompt and by how often it was asked.

    Args:
        seed: Of the faults and of the answers.
        hard: Whether some prompts fail once past all tries of a call.

    Attributes:
        requests: Of each request, who asked, what, and whether the answer was good.
    """

    def __init__(self, seed, *, hard):
        self.seed, self.hard = seed, hard
        self.requests = []
        self._times = Counter()
        self._lock = threading.Lock()
        self.stub = ModelStub(self.answer)

    def answer(self, number, body):
        prompt = body["messages"][-1]["content"]
        who = self.stub.headers[number - 1]["authorization"].split()[-1]
        with self._lock:
            self._times[prompt] += 1
            fault = self.fault(prompt, self._times[prompt])
            self.requests.append((who, prompt, fault in (None, "slow")))
        usage = {"prompt_tokens": len(prompt), "completion_tokens": prompt.encode()[-1], "prompt_tokens_details": {"cached_tokens": 2}}
        good = said(self.text(prompt), usage=usage).body
        draw = Random(f"{self.seed} {prompt} pace")
        match fault:
            case "429":
                return refused(429, "slow down", {"retry-after": "0"})
            case "500":
                return refused(500, "oops")
            case "reset":
                return Answer(body=good, cut_after=draw.choice([0, 20]), reset=True)
            case "cut":
                return Answer(body=good, cut_after=len(good) // 2)
        return Answer(body=good, delay_s=draw.uniform(0.1, 0.4) if fault == "slow" else draw.uniform(0.0, 0.02))

    def fault(self, prompt, times):
        """What becomes of the n-th request with this prompt; None for nothing."""
        if self.hard and times <= RETRIES + 1 and Random(f"{self.seed} {prompt} hard").random() < 0.03:
            return Random(f"{self.seed} {prompt} {times}").choice(["429", "500", "reset", "cut"])
        draw = Random(f"{self.seed} {prompt} {times}")
        return draw.choice(["429", "500", "reset", "cut", "slow"]) if times < RETRIES and draw.random() < FAULTY else None

    def text(self, prompt):
        """The answer: three of four are right."""
        wrong = sha256(f"{self.seed} {prompt}".encode()).digest()[0] < 64
        return "none" if wrong else prompt.split()[-1]

    def asked_by(self, who):
        return [(prompt, is_good) for asker, prompt, is_good in list(self.requests) if asker == who]


def parsed(path):
    """The lines of a log, by ten lines of our own: only the last may be torn, and is left out."""
    found = []
    pieces = path.read_bytes().split(b"\n") if path.exists() else []
    for number, piece in enumerate(pieces):
        try:
            line = json.loads(piece)
            assert isinstance(line, dict)
            found.append(line)
        except (ValueError, AssertionError):
            assert number == len(pieces) - 1, f"{path}:{number + 1} is torn: {piece[:200]!r}"
    return found


def key_of(line):
    return line["sample_id"], line.get("epoch", 1)


def completed(lines):
    """Sample and epoch of each end that is good."""
    return [key_of(line) for line in lines if line.get("type") == "sample" and line["data"]["status"] in ("completed", "limit")]


def spent(lines, statuses=None):
    """Tokens of all ends, or of those of some statuses."""
    total = Counter()
    for line in lines:
        if line.get("type") == "sample" and (statuses is None or line["data"]["status"] in statuses):
            for told in (line["data"].get("usage") or {}).values():
                total.update(known(told))
    return +total


def known(usage):
    """The numbers of a usage that are any."""
    return Counter({name: number for name, number in usage.items() if isinstance(number, int)})


@dataclass
class Process:
    """
    One process of a run.

    Args:
        number: Which, from 1; its key ends in it.
        running: The process.
        threads: Samples at once.
        output: Where its stdout and stderr go.
        before: What had ended in the log when it began.
        end: How it ended, in words.
    """

    number: int
    running: subprocess.Popen
    threads: int
    output: Path
    before: frozenset
    end: str = ""

    @property
    def who(self):
        return f"sk-process-{self.number:04}"

    def signal(self, number):
        """To the whole process group; one that is gone is let be."""
        if self.running.returncode is None:  # not reaped yet, so that its number is no other's
            os.killpg(self.running.pid, number)


class Torture:
    """
    One run under torture.

    Args:
        seed: Decides.
        folder: A folder that is not there yet.

    Attributes:
        processes: All of the run, in their order.
        refused: How many second processes were turned away.
        torn: How often a last line was torn by hand.
    """

    def __init__(self, seed, folder):
        self.seed, self.folder, self.draw = seed, folder, Random(f"torture {seed}")
        self.name = list(EVALS)[seed % len(EVALS)]
        self.asked = EVALS[self.name]
        self.prompts = self.asked.prompts(self.name)
        self.owner = {prompt: key for key, prompts in self.prompts.items() for prompt in prompts}
        self.retry_on_error = self.draw.choice([0, 2])
        self.server = Server(seed, hard=self.retry_on_error > 0)
        self.log = folder / "run.jsonl"
        self.processes, self.refused, self.torn = [], 0, 0
        self.write_registry()

    def write_registry(self):
        registry = self.folder / "R"
        for name in ("evals", "completion_fns", "data"):
            (registry / name).mkdir(parents=True)
        (registry / "parts.py").write_text(PARTS, encoding="utf-8")
        spec = {"class": self.asked.cls, "args": {"samples_jsonl": "rows.jsonl", **self.asked.args}}
        evals = {self.name: {"id": f"{self.name}.dev.v0"}, f"{self.name}.dev.v0": spec}
        (registry / "evals" / "tortured.yaml").write_text(json.dumps(evals), encoding="utf-8")
        function = {"gpt-stub": {"class": "parts:Impatient", "args": {"model": "gpt-stub"}}}
        (registry / "completion_fns" / "stub.yaml").write_text(json.dumps(function), encoding="utf-8")
        rows = [{"input": f"say the number {index}", "ideal": str(index)} for index in range(self.asked.rows)]
        (registry / "data" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    # ------------------------------------------------------------------ processes

    def oaieval(self, log, *flags):
        first = [SCRIPTS / "oaieval", "gpt-stub", self.name, "--registry_path", "R", "--record_path", log, *self.asked.flags]
        return [*first, "--retry_on_error", self.retry_on_error, *flags]

    def spawn(self, command, who, server, output):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("EVAL", "OPENAI", "PYTHON"))}
        environment = {**clean, "HOME": str(self.folder), "OPENAI_BASE_URL": server.stub.base_url, "OPENAI_API_KEY": who}
        with output.open("wb") as file:
            return subprocess.Popen(
                list(map(str, command)), cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )  # fmt: skip

    def resume_flags(self):
        """Of a run that has a log; a process that died before its first line has left none, or an empty one."""
        return ["--resume", self.log] if self.log.exists() and self.log.stat().st_size else []

    def start(self, *, threads, retries, grace_s):
        number, flags = len(self.processes) + 1, ["--threads", threads, "--max_retries", retries, "--grace_s", grace_s]
        if self.resume_flags() and self.draw.random() < 0.25:
            command = [SCRIPTS / "evalframe", "resume", self.log, *flags]
        else:
            command = self.oaieval(self.log, *flags, *self.resume_flags())
        output = self.folder / f"output-{number:04}.txt"
        before = frozenset(completed(parsed(self.log)))
        process = Process(number, None, threads, output, before)
        process.running = self.spawn(command, process.who, self.server, output)
        self.processes.append(process)
        return process

    def undisturbed(self):
        """The same run with nothing in its way but the same server's faults; its log's lines."""
        server, log, output = Server(self.seed, hard=self.server.hard), self.folder / "undisturbed.jsonl", self.folder / "undisturbed.txt"
        with server.stub:
            running = self.spawn(self.oaieval(log, "--threads", 10, "--max_retries", RETRIES), "sk-undisturbed", server, output)
            assert running.wait(PATIENCE_S) == 0, output.read_text(encoding="utf-8")
        self.undisturbed_requests = len(server.requests)
        return parsed(log)

    # ------------------------------------------------------------------ the torture

    def run(self):
        """Kill and resume until the run is complete; then look at it from all sides."""
        expected = self.undisturbed()
        with self.server.stub:
            for _ in range(self.draw.randrange(6, 15)):
                self.endure(self.plan())
                if self.draw.random() < 0.2:
                    self.tear()
                if self.is_complete():
                    break
            for _ in range(2):
                if not self.is_complete():
                    self.endure("nothing")
            assert self.is_complete(), f"{self.told(self.processes[-1])} is not complete, though nothing stands in its way"
            self.hold_complete(expected)
            asked = len(self.server.requests)
            self.endure("nothing")  # of a complete run there is nothing to ask
            assert len(self.server.requests) == asked
            assert self.processes[-1].running.returncode == 0
            self.hold_complete(expected)
        return self

    def is_complete(self):
        lines = parsed(self.log)
        return bool(lines) and lines[-1].get("status") == "success" and self.log.read_bytes().endswith(b"\n")

    def plan(self):
        if len(self.processes) < SURELY_KILLED:
            return self.draw.choices(["early", "middle"], [1, 3])[0]
        left = len(self.prompts) - len(set(completed(parsed(self.log))))
        return self.draw.choices(["early", "middle", "report"], [2, 4, 3 if left < len(self.prompts) / 2 else 0.3])[0]

    def endure(self, plan):
        """One process, from its start to its end, and what must hold then."""
        retries = RETRIES if plan == "nothing" else self.draw.randrange(RETRIES + 2)
        process = self.start(threads=self.draw.randint(1, 20), retries=retries, grace_s=self.draw.choice([0.01, 0.1, 3]))
        self.wait_for_the_moment(process, plan)
        if plan == "middle" and self.draw.random() < 0.3:
            self.try_a_second(process)
        self.end(process, plan)
        self.hold_at_rest(process)

    def wait_for_the_moment(self, process, plan):
        began, seen, running = time.monotonic(), len(self.server.requests), process.running
        pause_s, goal = self.draw.uniform(0, 0.6), seen + self.draw.randint(1, MOST_BETWEEN_KILLS)
        if plan == "early":
            time.sleep(pause_s)
        elif plan == "middle":
            while len(self.server.requests) < goal and running.poll() is None and time.monotonic() < began + PATIENCE_S:
                time.sleep(0.001)
            time.sleep(pause_s / 60)
        elif plan == "report":
            wanted = {prompts[-1] for key, prompts in self.prompts.items() if key not in process.before}
            while wanted and running.poll() is None and time.monotonic() < began + PATIENCE_S:
                wanted -= {prompt for prompt, is_good in self.server.asked_by(process.who) if is_good}
                time.sleep(0.002)
            time.sleep(pause_s / 4)

    def end(self, process, plan):
        """Kill it, or ask it to end, once or twice; or let it come to its end."""
        running = process.running
        others = 0 if process.number <= SURELY_KILLED else 1
        how = self.draw.choices(["SIGKILL", "SIGTERM", "SIGINT", "twice"], [14, 3 * others, 2 * others, others])[0]
        how = "nothing" if plan == "nothing" else how
        gone = running.poll() is not None
        if how == "twice":
            process.signal(signal.SIGINT)
            time.sleep(self.draw.uniform(0, 0.05))
            process.signal(signal.SIGINT)
        elif how != "nothing":
            process.signal(getattr(signal, how))
        code = running.wait(PATIENCE_S)
        process.end = "by itself" if gone or how == "nothing" else f"{plan} {how}"
        wanted = {"SIGKILL": {-9}, "SIGTERM": {143, -15}, "SIGINT": {130, -2}, "twice": {130, -2}}.get(how if not gone else "", set())
        told = process.output.read_text(encoding="utf-8", errors="replace")
        assert code in wanted | {0, 1}, f"{self.told(process)} exit {code}\n{told}"
        assert "Traceback" not in told or how not in ("nothing", "SIGKILL"), f"{self.told(process)}\n{told}"

    def try_a_second(self, process):
        """While one process holds the log (stopped, so that it writes nothing meanwhile), another is turned away and does no harm."""
        if not self.server.asked_by(process.who) or process.running.poll() is not None:
            return
        process.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.running.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if process.running.poll() is None:
            kept, who, output = self.log.read_bytes(), f"sk-second-{process.number:04}", self.folder / "second.txt"
            command = self.draw.choice([self.oaieval(self.log, "--resume", self.log), [SCRIPTS / "evalframe", "resume", self.log]])
            code, told = self.spawn(command, who, self.server, output).wait(PATIENCE_S), output.read_text(encoding="utf-8")
            assert code == 2, f"{self.told(process)} a second process ends with {code}: {told}"
            assert "another process is writing" in told, told
            assert "Traceback" not in told, told
            assert self.log.read_bytes() == kept
            assert not self.server.asked_by(who)
            self.refused += 1
        process.signal(signal.SIGCONT)

    def tear(self):
        """What a crash of the machine may leave behind: half a last line, or bytes that are none."""
        raw = self.log.read_bytes() if self.log.exists() else b""
        if raw.count(b"\n") < 2:
            return
        last = raw[:-1].rfind(b"\n") + 1
        cut = raw[: self.draw.randrange(last + 1, len(raw))]
        tails = [b"{", b'{"run_id": "2', b'{"final_report": {"accuracy": 0.', b"\xff\xfe", b"\0" * 40, raw[last : (last + len(raw)) // 2]]
        self.log.write_bytes(self.draw.choice([cut, raw + self.draw.choice(tails)]))
        self.torn += 1

    # ------------------------------------------------------------------ what must hold

    def told(self, process):
        return f"seed {self.seed} ({self.name}), process {process.number} ({process.end}):"

    def hold_at_rest(self, process):
        """No process is alive: the log is whole but for its last line, and tells of what was asked."""
        lines, told = parsed(self.log), self.told(process)
        if not lines:
            return
        ended = completed(lines)
        done = set(ended)
        assert len(ended) == len(done), f"{told} ended twice: {[key for key, times in Counter(ended).items() if times > 1]}"
        assert process.before <= done, f"{told} lost {sorted(process.before - done)[:5]}"
        self.hold_ids(lines, told)
        log = read_log(self.log)
        assert {(event.sample_id, event.epoch) for event in log.events("sample") if event.data["status"] == "completed"} == done, told
        for kind in ("match", "metrics") if self.asked.metric else ("match",):
            counted = Counter((event.sample_id, event.epoch) for event in log.events(kind))
            assert counted == Counter(done), f"{told} {kind}: {odd(counted, done)}"
        if lines[-1].get("final_report") is not None:
            assert lines[-1]["samples"]["completed"] == len(done), f"{told} {lines[-1]}"
            assert self.asked.epochs > 1 or lines[-1]["final_report"]["n"] == len(done), f"{told} {lines[-1]}"
        self.hold_requests(process, done, told)

    def hold_ids(self, lines, told):
        numbers = Counter(line["event_id"] for line in lines if "event_id" in line)
        assert not [number for number, times in numbers.items() if times > 1], f"{told} event ids given twice"
        assert len({line["run_id"] for line in lines if "run_id" in line} | {lines[0]["spec"]["run_id"]}) == 1, told

    def hold_requests(self, process, done, told):
        """It asked for nothing that had ended before it, nothing that nobody wants, nothing twice, and lost only what was in flight."""
        asked = self.server.asked_by(process.who)
        strange = [prompt for prompt, _ in asked if prompt not in self.owner]
        assert not strange, f"{told} asked {strange[:3]}, which no sample's randomness gives"
        again = {self.owner[prompt] for prompt, _ in asked} & process.before
        assert not again, f"{told} asked again for what had ended: {sorted(again)[:5]}"
        good = Counter(prompt for prompt, is_good in asked if is_good)
        last = {prompts[-1] for prompts in self.prompts.values()}
        twice = [prompt for prompt, times in good.items() if times > (1 if prompt in last else 1 + self.retry_on_error)]
        assert not twice, f"{told} was answered and asked again: {twice[:5]}"
        lost = {self.owner[prompt] for prompt in good if prompt in last} - done
        assert len(lost) <= process.threads, f"{told} lost {len(lost)} answers with {process.threads} threads"

    def hold_complete(self, expected):
        """The log is whole, each sample is counted once, and the report is that of the undisturbed run."""
        told = f"seed {self.seed} ({self.name}):"
        raw, lines, log = self.log.read_bytes(), parsed(self.log), read_log(self.log)
        assert raw.endswith(b"\n"), told
        assert len(lines) == raw.count(b"\n"), f"{told} a torn line was left"
        assert log.torn_lines == 0, told
        self.hold_ids(lines, told)
        assert Counter(completed(lines)) == Counter(list(self.prompts)), told
        assert counted_by_hand(lines, "match") == Counter(list(self.prompts)), told
        final, wanted = lines[-1], expected[-1]
        assert log.status == final["status"] == wanted["status"] == "success", told
        assert log.samples == final["samples"] == wanted["samples"], told
        assert log.final_report == final["final_report"], told
        assert {name: value for name, value in final["final_report"].items() if name != "usage"} == {
            name: value for name, value in wanted["final_report"].items() if name != "usage"
        }, told
        self.hold_usage(lines, expected, told)

    def hold_usage(self, lines, expected, told):
        """What the ends in the log cost is what the report says; beyond the undisturbed run only attempts that failed or were stopped cost."""
        for those in (lines, expected):
            (usage,) = those[-1]["final_report"]["usage"].values()
            assert spent(those) == +known(usage), told
        assert spent(lines, ("completed",)) == spent(expected, ("completed",)), told
        if not spent(lines, ("error", "interrupted")) and not spent(expected, ("error", "interrupted")):
            assert lines[-1]["final_report"] == expected[-1]["final_report"], told

    def summary(self):
        """One line of a table."""
        ends = [process.end for process in self.processes]
        kills = sum(end != "by itself" for end in ends)
        requests = len(self.server.requests) / len(self.prompts), self.undisturbed_requests / len(self.prompts)
        return {
            "seed": self.seed, "eval": self.name, "kills": kills, "of them -9": sum("KILL" in end for end in ends), "resumes": len(ends) - 1,
            "turned away": self.refused, "torn": self.torn, "requests a sample": round(requests[0], 3), "undisturbed": round(requests[1], 3),
            "ends": dict(Counter(ends)),
        }  # fmt: skip


def counted_by_hand(lines, kind):
    """The events of a type that belong to the attempt with which their sample ended well."""
    good = {
        key_of(line): line.get("attempt", 1) for line in lines if line.get("type") == "sample" and line["data"]["status"] == "completed"
    }
    return Counter(key_of(line) for line in lines if line.get("type") == kind and line.get("attempt", 1) == good.get(key_of(line)))


def odd(counted, done):
    """Where a count is not one each."""
    return {key: counted[key] for key in {*counted, *done} if counted[key] != (key in done)}
