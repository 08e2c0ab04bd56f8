"""Several runs in one process, beside one another, inside of one another and inside of an event loop; and sets of them."""

import asyncio
import contextlib
import json
import os
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from number_rows import numbers

from evalframe.core.completion import Completion
from evalframe.core.errors import BadLog, BadSetting, EvalFailed, LogUnavailable, UnknownName
from evalframe.core.recorder import record_match, record_metrics, record_sampling
from evalframe.eval import Eval
from evalframe.logs.run_log import read_log
from evalframe.registry.registry import Registry
from evalframe.runs.eval_set import run_set
from evalframe.runs.run import run_eval

MATCH = "evalframe.evals.basic:Match"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Says:
    """Says the number it is asked for, after a word; fails on some."""

    def __init__(self, word="", fail=(), delay_s=0.0, model="says"):
        self.word, self.fail, self.delay_s, self.model = word, set(fail), delay_s, model
        self.asked, self.at_once, self.most = [], 0, 0
        self.lock = threading.Lock()

    def __call__(self, prompt, **options):
        number = int(prompt.split()[-1])
        with self.lock:
            self.asked.append(number)
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        try:
            time.sleep(self.delay_s)
            if number in self.fail:
                raise ConnectionError(f"no answer to {number}")
        finally:
            with self.lock:
                self.at_once -= 1
        record_sampling(prompt, f"{self.word}{number}", model=self.model, usage={"input_tokens": number, "output_tokens": 2})
        return Completion([f"{self.word}{number}"])


class Named(Says):
    """One that a registry can make; what it does and was asked is the class's."""

    plan: dict = {}
    ever: list = []
    running: list = []
    most_at_once = 0
    guard = threading.Lock()

    def __init__(self):
        super().__init__(model="named")

    def __call__(self, prompt, **options):
        number = int(prompt.split()[-1])
        with Named.guard:
            Named.ever.append(number)
            Named.running.append(number)
            Named.most_at_once = max(Named.most_at_once, len(Named.running))
        try:
            if number in Named.plan.get("stop", ()):
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(Named.plan.get("delay_s", 0))
            self.fail = set(Named.plan.get("fail", ()))
            return super().__call__(prompt)
        finally:
            with Named.guard:
                Named.running.remove(number)


class Drawn(Eval):
    """Asks, draws, records; its numbers tell when anything of another run has come in."""

    def eval_sample(self, sample, rng):
        drawn = rng.random()
        (answer,) = self.completion_fn(sample["input"]).get_completions()
        record_match(answer.endswith(sample["ideal"]), picked=answer)
        record_metrics(drawn=drawn)
        return [answer, drawn]

    def run(self, recorder):
        results = self.eval_all_samples(recorder, self.get_samples())
        right = [event.data["correct"] for event in recorder.get_events("match")]
        return {
            "accuracy": sum(right) / len(right) if right else None,
            "n": len(right),
            "results": results,
            "drawn": sorted(recorder.get_scores("drawn")),
        }


class Waits(Drawn):
    """The same, as a coroutine."""

    async def eval_sample(self, sample, rng):
        await asyncio.sleep(0.001)
        return super().eval_sample(sample, rng)


class Inner(Drawn):
    """Runs another eval in the middle of each of its samples."""

    def eval_sample(self, sample, rng):
        number = int(sample["ideal"])
        inner = run_eval(Says(), "few", registry=Registry([Path("R")]), sequential=True, dry_run=True, dry_run_logging=False, seed=number)
        assert (inner.report["accuracy"], inner.report["n"]) == (1.0, 3)
        return super().eval_sample(sample, rng)


class Desk:
    """A folder with a registry of several evals, each over numbers of its own."""

    def __init__(self, folder):
        self.folder, self.registry = folder, folder / "R"
        for kind in ("evals", "completion_fns", "eval_sets", "data"):
            (self.registry / kind).mkdir(parents=True)
        (self.registry / "completion_fns" / "f.yaml").write_text(json.dumps({"named": {"class": f"{__name__}:Named"}}), encoding="utf-8")

    def eval(self, name, cls=MATCH, *, rows=10, start=0, run=None, **args):
        entry = {"class": cls, "args": {"samples_jsonl": f"{name}.jsonl", **args}, **({"run": run} if run else {})}
        (self.registry / "evals" / f"{name}.yaml").write_text(
            json.dumps({name: {"id": f"{name}.dev.v0"}, f"{name}.dev.v0": entry}), encoding="utf-8"
        )
        self.rows(name, rows, start)

    def rows(self, name, rows, start=0):
        text = "".join(json.dumps(row) + "\n" for row in numbers(rows, start=start))
        (self.registry / "data" / f"{name}.jsonl").write_text(text, encoding="utf-8")

    def set(self, name, *evals):
        (self.registry / "eval_sets" / f"{name}.yaml").write_text(json.dumps({name: {"evals": list(evals)}}), encoding="utf-8")

    def names(self):
        return Registry([self.registry])

    def __call__(self, model, what, **settings):
        return run_eval(model, what, registry=self.names(), **settings)

    def run_set(self, what, model="named", **settings):
        return list(run_set(model, what, registry=self.names(), **settings))


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in (("plan", {}), ("ever", []), ("running", []), ("most_at_once", 0)):
        monkeypatch.setattr(Named, name, value)
    made = Desk(tmp_path)
    for place, name in enumerate(("plain", "drawn", "waits")):
        made.eval(name, MATCH if name == "plain" else f"{__name__}:{name.title()}", rows=20, start=100 * place)
    made.eval("few", f"{__name__}:Drawn", rows=3, start=900)
    return made


def comes_to(result):
    """All that a result and its log tell but for times."""
    log = read_log(result.log_path)
    assert (log.final_report, log.status, log.samples) == (json.loads(json.dumps(result.report)), result.status, result.counts.to_line())
    told = {}
    for kind in ("match", "sampling", "metrics", "sample"):
        assert list(log.events(kind)) == list(result.events(kind))
        told[kind] = sorted(
            (event.sample_id, event.epoch, event.attempt, json.dumps(without_times(event.data), sort_keys=True))
            for event in log.events(kind, all_attempts=True)
        )
    ids = [line["event_id"] for line in log.lines() if "event_id" in line]
    assert sorted(ids) == list(range(len(ids)))
    assert {line["run_id"] for line in log.lines() if "event_id" in line} == {result.run_spec.run_id}
    return {"report": result.report, "status": result.status, "reason": result.reason, "counts": result.counts.to_line(), **told}


def without_times(data):
    told = {name: value for name, value in data.items() if name not in ("seconds", "waiting_seconds")}
    if isinstance(told.get("error"), dict):
        told["error"] = {name: value for name, value in told["error"].items() if name != "traceback"}
    if isinstance(told.get("limit"), dict):
        told["limit"] = told["limit"]["type"]
    return told


# ---------------------------------------------------------------------- beside one another

CASES = [  # who, what, settings; each different from the others in whatever two runs could confuse
    (lambda: Says(), "plain", {"threads": 4}),
    (lambda: Says(model="other", word="It is "), "drawn", {"threads": 3, "seed": 7, "epochs": 3}),
    (lambda: Says(fail=(203, 207), model="third"), "waits", {"threads": 5, "fail_on_error": 0.05, "retry_on_error": 1}),
    (lambda: Says(model="fourth"), "plain", {"turn_limit": 1, "token_limit": 12, "max_samples": 11, "sequential": True}),
    (lambda: Says(fail=(5,), model="fifth"), "plain", {"threads": 2, "score_on_error": True, "fail_on_error": False, "user": "somebody"}),
    (lambda: Says(model="sixth"), "drawn", {"threads": 2, "max_samples": 4, "epochs": 2, "epochs_reducer": "max", "seed": 8}),
]  # fmt: skip


def test_runs_on_threads_are_each_what_they_are_alone(desk):
    alone = [comes_to(desk(who(), what, log_dir="alone", **settings)) for who, what, settings in CASES]
    assert [told["status"] for told in alone] == ["success", "success", "error", "success", "success", "success"]
    assert alone[3]["counts"]["limit"] > 0
    for _ in range(3):
        begin = threading.Barrier(len(CASES))

        def one(case, begin=begin):
            who, what, settings = case
            model = who()
            begin.wait()
            return comes_to(desk(model, what, log_dir="together", **settings))

        with ThreadPoolExecutor(len(CASES)) as pool:
            together = list(pool.map(one, CASES))
        for mine, other in zip(together, alone, strict=True):
            assert mine == other


def test_runs_on_threads_share_a_registry_a_model_and_a_cache(desk):
    class Kept(Says):
        def cache_identity(self, options):
            return {"model": self.model, "options": dict(options)}

    registry, model = desk.names(), Kept()
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda _: run_eval(model, "plain", registry=registry, threads=3, cache_dir="kept"), range(6)))
    assert {(result.status, result.report["accuracy"], result.report["n"]) for result in results} == {("success", 1.0, 20)}
    assert len({result.log_path for result in results}) == 6
    assert 20 <= len(model.asked) <= 120
    asked = len(model.asked)
    assert run_eval(model, "plain", registry=registry, cache_dir="kept").report["accuracy"] == 1.0
    assert len(model.asked) == asked


def test_many_runs_that_begin_at_once_have_a_log_each(desk):
    with ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda _: desk(Says(), "few", sequential=True), range(40)))
    assert len({result.log_path for result in results}) == len({result.run_spec.run_id for result in results}) == 40
    assert all(read_log(result.log_path).status == "success" for result in results)


def test_two_that_want_the_same_log_get_it_one_after_the_other(desk):
    begin = threading.Barrier(8)

    def one(_):
        begin.wait()
        try:
            return desk(Says(delay_s=0.01), "few", record_path="one.jsonl").status
        except LogUnavailable as error:
            return "exists" if "exists already" in str(error) else "in use" if "another process is writing" in str(error) else str(error)

    with ThreadPoolExecutor(8) as pool:
        ends = Counter(pool.map(one, range(8)))
    assert ends["success"] == 1
    assert set(ends) <= {"success", "exists", "in use"}
    assert read_log("one.jsonl").samples["completed"] == 3


def test_of_several_that_take_up_one_log_one_does(desk):
    log = desk(Says(fail=(3, 7)), "plain").log_path
    begin, model = threading.Barrier(6), Says(delay_s=0.05)

    def one(_):
        begin.wait()
        try:
            return desk(model, "plain", resume=str(log)).status
        except LogUnavailable as error:
            return "in use" if "another process is writing" in str(error) else str(error)

    with ThreadPoolExecutor(6) as pool:
        ends = Counter(pool.map(one, range(6)))
    assert set(ends) <= {"success", "in use"}
    assert sorted(model.asked) == [3, 7]
    assert read_log(log).samples["completed"] == 20


def test_a_run_that_breaks_leaves_the_others_as_they_are(desk):
    class Breaks(Drawn):
        def run(self, recorder):
            super().run(recorder)
            raise ZeroDivisionError

    globals()["Breaks"] = Breaks
    desk.eval("breaks", f"{__name__}:Breaks")

    def one(number):
        if number % 3 == 0:
            return desk(Says(), "breaks", threads=3).status
        if number % 3 == 1:
            with pytest.raises(BadLog):
                desk(Says(), "plain", resume="nowhere.jsonl")
            return "refused"
        return comes_to(desk(Says(), "plain", threads=3))["report"]["accuracy"]

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(one, range(12))) == ["error", "refused", 1.0] * 4


# ---------------------------------------------------------------------- inside of one another


@pytest.mark.parametrize("how", [{"sequential": True}, {"threads": 4}], ids=str)
def test_a_run_in_the_middle_of_a_sample_is_another_run(desk, how):
    desk.eval("outer", f"{__name__}:Inner", rows=5, start=100)
    result = desk(Says(), "outer", **how)
    assert (result.status, result.report["accuracy"], result.report["n"]) == ("success", 1.0, 5)
    assert {event.sample_id for event in read_log(result.log_path).events()} == {f"outer.dev.{number}" for number in range(5)}
    assert result.report["usage"]["says"]["calls"] == 5
    assert len(list(Path("evallogs").iterdir())) == 1


# ---------------------------------------------------------------------- inside of an event loop


@pytest.mark.parametrize("how", [{"sequential": True}, {"threads": 4}], ids=str)
@pytest.mark.parametrize("what", ["plain", "drawn", "waits"])
def test_a_run_inside_of_an_event_loop_is_the_run_outside(desk, what, how):
    """As in a notebook, whose cells run in a loop that is running already."""

    async def cell():
        assert asyncio.get_running_loop().is_running()
        return desk(Says(), what, **how)

    assert comes_to(asyncio.run(cell())) == comes_to(desk(Says(), what, **how))


def test_runs_on_threads_of_an_event_loop_go_on_beside_what_the_loop_does(desk):
    async def cell():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        results = await asyncio.gather(
            *(asyncio.to_thread(desk, Says(delay_s=0.005), what, threads=4) for what in ("plain", "drawn", "waits"))
        )
        ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ticking
        return ticks, results

    ticks, results = asyncio.run(cell())
    assert [(result.status, result.report["accuracy"]) for result in results] == [("success", 1.0)] * 3
    assert ticks > 3


def test_a_run_inside_of_an_event_loop_can_be_stopped_and_taken_up(desk):
    Named.plan = {"stop": [5], "delay_s": 0.001}

    async def cell(**more):
        return desk("named", "plain", sequential=True, **more)

    before = [signal.getsignal(number) for number in SIGNALS]
    stopped = asyncio.run(cell())
    assert stopped.status == "cancelled"
    Named.plan = {}
    result = asyncio.run(cell(resume=str(stopped.log_path)))
    assert (result.status, Counter(Named.ever)) == ("success", Counter(range(20)))
    assert [signal.getsignal(number) for number in SIGNALS] == before


# ---------------------------------------------------------------------- signals


@pytest.fixture
def handlers():
    """Handlers of our own for all three signals."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    own = {number: (lambda number, frame: None) for number in SIGNALS}
    for number, handler in own.items():
        signal.signal(number, handler)
    yield own
    for number, handler in before.items():
        signal.signal(number, handler)


def now():
    return {number: signal.getsignal(number) for number in SIGNALS}


def test_handlers_are_what_they_were_however_a_run_ends(desk, handlers):
    desk("named", "plain")
    assert now() == handlers
    Named.plan = {"fail": [3]}
    desk("named", "plain")
    assert now() == handlers
    Named.plan = {"stop": [5]}
    assert desk("named", "plain", sequential=True).status == "cancelled"
    assert now() == handlers
    with pytest.raises(BadLog):
        desk("named", "plain", resume="nowhere.jsonl")
    assert now() == handlers

    def fails(prepared):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        desk("named", "plain", on_start=fails)
    assert now() == handlers
    with pytest.raises(EvalFailed):
        desk("named", "plain", sequential=True).raise_for_status()
    assert now() == handlers


def test_while_a_run_goes_on_the_handlers_are_its_own_and_a_hangup_that_is_ignored_stays_so(desk, handlers):
    seen = []

    class Looks(Says):
        def __call__(self, prompt, **options):
            seen.append(now())
            return super().__call__(prompt)

    desk(Looks(), "few")
    assert all(not set(at.values()) & set(handlers.values()) for at in seen)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    seen.clear()
    desk(Looks(), "few")
    assert {at[signal.SIGHUP] for at in seen} == {signal.SIG_IGN}


@pytest.mark.parametrize("what", ["plain", "waits"])
def test_a_run_on_a_thread_touches_no_signals(desk, handlers, what):
    seen = []

    class Looks(Says):
        def __call__(self, prompt, **options):
            seen.append(now())
            return super().__call__(prompt)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: desk(Looks(), what, threads=2), range(2)))
    assert [result.status for result in results] == ["success"] * 2
    assert len(seen) == 40
    assert all(at == handlers for at in seen)
    assert now() == handlers


def test_a_signal_to_a_process_whose_runs_are_on_threads_is_the_programs_own_matter(desk):
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with ThreadPoolExecutor(1) as pool:
            Named.plan = {"stop": [5], "delay_s": 0.001}
            result = pool.submit(desk, "named", "plain").result()
    finally:
        signal.signal(signal.SIGINT, before)
    assert (result.status, heard) == ("success", [signal.SIGINT])


def test_after_a_run_a_signal_means_what_it_meant_before(desk):
    desk(Says(), "few")
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


class Careless(Drawn):
    """Divides by the number of verdicts, as if there were always some."""

    def run(self, recorder):
        self.eval_all_samples(recorder, self.get_samples())
        right = [event.data["correct"] for event in recorder.get_events("match")]
        return {"accuracy": sum(right) / len(right)}


def test_a_signal_before_any_sample_has_ended_is_no_fault_of_the_eval(desk):
    desk.eval("careless", f"{__name__}:Careless")
    Named.plan = {"stop": list(range(10)), "fail": list(range(10))}
    result = desk("named", "careless", sequential=True)
    assert len(Named.ever) == 1
    assert (result.status, result.exit_code, read_log(result.log_path).status) == ("cancelled", 130, "cancelled")
    Named.plan = {}
    assert desk("named", "careless", resume=str(result.log_path)).report["accuracy"] == 1.0


# ---------------------------------------------------------------------- sets


@pytest.fixture
def trio(desk):
    for place, name in enumerate(("a", "b", "c")):
        desk.eval(name, f"{__name__}:{'Waits' if name == 'b' else 'Drawn'}", rows=8, start=100 * place)
    desk.set("trio", "a", "b", "c")
    return desk


ALL = [*range(8), *range(100, 108), *range(200, 208)]


@pytest.mark.parametrize("parallel", [1, 3])
def test_the_evals_of_a_set_are_each_what_they_are_alone(trio, parallel):
    alone = {name: comes_to(trio("named", name, log_dir="alone", seed=3, epochs=2)) for name in ("a", "b", "c")}
    members = trio.run_set("trio", parallel=parallel, threads=4, seed=3, epochs=2)
    assert sorted((member.number, member.eval_name) for member in members) == [(1, "a.dev.v0"), (2, "b.dev.v0"), (3, "c.dev.v0")]
    for member in members:
        assert comes_to(member.result) == alone[member.eval_name[0]]
        assert (member.exit_code, member.succeeded, member.line()[:2]) == (0, True, (member.eval_name, "success"))


@pytest.mark.parametrize("threads", [2, 5])
def test_workers_are_those_of_all_evals_together(trio, threads):
    Named.plan = {"delay_s": 0.01}
    assert all(member.succeeded for member in trio.run_set("trio", parallel=3, threads=threads))
    assert 2 <= Named.most_at_once <= threads


def test_what_has_not_succeeded_is_taken_up_and_nothing_else(trio):
    Named.plan = {"fail": [3, 103]}
    first = trio.run_set("trio", parallel=2)
    assert {member.eval_name: member.exit_code for member in first} == {"a.dev.v0": 1, "b.dev.v0": 1, "c.dev.v0": 0}
    logs = {member.result.log_path for member in first}
    Named.plan = {}
    again = trio.run_set("trio", parallel=2)
    assert {member.eval_name: member.line()[1] for member in again} == {
        "a.dev.v0": "success",
        "b.dev.v0": "success",
        "c.dev.v0": "done before",
    }
    assert Counter(Named.ever) == Counter([*ALL, 3, 103])
    assert {member.result.log_path for member in again if member.result} <= logs
    assert {member.line()[1] for member in trio.run_set("trio")} == {"done before"}
    assert Counter(Named.ever) == Counter([*ALL, 3, 103])


def test_without_resume_everything_is_asked_anew_and_that_counts_from_then_on(trio):
    trio.run_set("trio")
    members = trio.run_set("trio", resume=False)
    assert all(member.result is not None for member in members)
    assert Counter(Named.ever) == Counter([*ALL, *ALL])
    latest = {member.eval_name: member.result.log_path for member in members}
    assert {member.eval_name: member.done_before.path for member in trio.run_set("trio")} == latest


@pytest.mark.parametrize("change", ["seed", "model", "arguments", "rows", "log gone", "log cut", "log damaged", "log folder"])
def test_what_has_changed_is_asked_again(trio, change):
    trio.run_set("trio")
    Named.ever.clear()
    (log,) = Path("evallogs").glob("*_a.dev.v0_*")
    settings, wanted = {}, Counter()
    if change == "seed":
        settings, wanted = {"seed": 9}, Counter(ALL)
    elif change == "model":
        (trio.registry / "completion_fns" / "g.yaml").write_text(json.dumps({"twin": {"class": f"{__name__}:Named"}}), encoding="utf-8")
        settings, wanted = {"model": "twin"}, Counter(ALL)
    elif change == "arguments":
        trio.eval("a", f"{__name__}:Waits", rows=8)
        wanted = Counter(range(8))
    elif change == "rows":
        trio.rows("a", 9)
        wanted = Counter([8])
    elif change == "log gone":
        log.unlink()
        wanted = Counter(range(8))
    elif change == "log cut":
        raw = log.read_bytes().splitlines(keepends=True)
        ends = [place for place, line in enumerate(raw) if json.loads(line).get("type") == "sample"]
        log.write_bytes(b"".join(raw[: ends[5] + 1]))
        wanted = Counter(set(range(8)) - {int(json.loads(raw[place])["sample_id"].rpartition(".")[2]) for place in ends[:6]})
    elif change == "log damaged":
        log.write_bytes(b"garbage\n" + log.read_bytes())
        wanted = Counter(range(8))
    else:
        settings, wanted = {"log_dir": "other"}, Counter(ALL)
    members = trio.run_set("trio", **settings)
    assert all(member.succeeded for member in members)
    assert Counter(Named.ever) == wanted
    assert {member.line()[1] for member in trio.run_set("trio", **settings)} == {"done before"}
    assert Counter(Named.ever) == wanted


def test_settings_that_bear_on_no_result_may_change_between(trio):
    Named.plan = {"fail": [3]}
    trio.run_set("trio", threads=2)
    Named.plan = {}
    members = trio.run_set("trio", threads=5, timeout_s=9, fail_on_error=False, sequential=True)
    assert {member.eval_name: member.line()[1] for member in members} == {
        "a.dev.v0": "success",
        "b.dev.v0": "done before",
        "c.dev.v0": "done before",
    }
    assert Counter(Named.ever) == Counter([*ALL, 3])


def test_an_eval_that_cannot_begin_is_told_and_the_others_go_on(trio):
    (trio.registry / "data" / "b.jsonl").unlink()
    members = {member.eval_name: member for member in trio.run_set("trio", parallel=2)}
    assert {name: (member.exit_code, member.line()[1]) for name, member in members.items()} == {
        "a.dev.v0": (0, "success"),
        "b.dev.v0": (2, "could not begin"),
        "c.dev.v0": (0, "success"),
    }
    assert "b.jsonl" in str(members["b.dev.v0"].error)
    trio.rows("b", 8, start=100)
    again = {member.eval_name: member.line()[1] for member in trio.run_set("trio")}
    assert again == {"a.dev.v0": "done before", "b.dev.v0": "success", "c.dev.v0": "done before"}


def test_an_eval_whose_code_raises_is_a_failure_of_its_own(trio):
    class Raises(Drawn):
        def run(self, recorder):
            raise ZeroDivisionError

    class Cannot(Drawn):
        def check(self):
            raise ZeroDivisionError

    globals()["Raises"], globals()["Cannot"] = Raises, Cannot
    trio.eval("a", f"{__name__}:Raises", rows=8)
    trio.eval("b", f"{__name__}:Cannot", rows=8)
    ends = {member.eval_name: (member.exit_code, member.line()[1]) for member in trio.run_set("trio", parallel=3)}
    assert ends == {"a.dev.v0": (1, "error"), "b.dev.v0": (1, "could not begin"), "c.dev.v0": (0, "success")}


@pytest.mark.parametrize("parallel", [1, 2, 3])
def test_after_the_first_that_fails_no_other_begins_where_that_is_asked_for(trio, parallel):
    Named.plan = {"fail": [3], "delay_s": 0.002}
    members = {member.number: member for member in trio.run_set("trio", exit_on_error=True, parallel=parallel, threads=1)}
    assert sorted(members) == [1, 2, 3]
    assert members[1].exit_code == 1
    if parallel == 1:
        assert [members[number].line()[1] for number in (2, 3)] == ["not begun", "not begun"]
        assert sorted(Named.ever) == list(range(8))
    Named.plan = {}
    assert all(member.succeeded for member in trio.run_set("trio", exit_on_error=True))
    assert Counter(Named.ever) == Counter([*ALL, 3])


@pytest.mark.parametrize("how", [{"sequential": True}, {"parallel": 1, "threads": 2}, {"parallel": 3, "threads": 3}], ids=str)
def test_a_signal_stops_all_of_them_and_the_same_call_goes_on(trio, handlers, how):
    Named.plan = {"stop": [6], "delay_s": 0.01}
    members = {member.number: member for member in trio.run_set("trio", **how)}
    assert sorted(members) == [1, 2, 3]
    assert max(member.exit_code for member in members.values()) == 130
    assert {member.line()[1] for member in members.values()} <= {"cancelled", "not begun", "success"}
    assert now() == handlers
    Named.plan = {}
    assert all(member.succeeded for member in trio.run_set("trio"))
    assert Counter(Named.ever) == Counter(ALL)


def test_two_sets_at_once_do_not_disturb_one_another(trio):
    trio.set("other", "a", "c")
    Named.plan = {"delay_s": 0.002}
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(trio.run_set, "trio", parallel=3, threads=3)
        two = pool.submit(trio.run_set, "other", parallel=2, threads=3, seed=5)
        members = [*one.result(), *two.result()]
    assert len(members) == 5
    assert all(member.succeeded for member in members)
    assert Counter(Named.ever) == Counter([*ALL, *range(8), *range(200, 208)])
    for member in members:
        comes_to(member.result)


def test_a_set_that_is_left_in_the_middle_lets_go_of_everything(trio, handlers):
    members = run_set("named", "trio", registry=trio.names(), parallel=1, threads=2)
    first = next(members)
    members.close()
    assert (first.eval_name, now() == handlers) == ("a.dev.v0", True)
    ends = {member.eval_name: member.line()[1] for member in trio.run_set("trio")}
    assert ends["a.dev.v0"] == "done before"
    assert set(ends.values()) <= {"done before", "success"}
    assert Counter(Named.ever) == Counter(ALL)


def test_a_set_that_is_not_there_and_a_setting_that_is_none_are_told_before_anything(trio):
    with pytest.raises(UnknownName, match='no eval set "tri"'):
        trio.run_set("tri")
    with pytest.raises(BadSetting, match="--threads"):
        trio.run_set("trio", threads=0)
    assert Named.ever == []
    assert not Path("evallogs").exists()


def test_a_set_inside_of_an_event_loop_is_the_set_outside(trio):
    async def cell():
        return trio.run_set("trio", parallel=3, threads=3)

    assert all(member.succeeded for member in asyncio.run(cell()))
    assert Counter(Named.ever) == Counter(ALL)
