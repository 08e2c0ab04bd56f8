import json
import random
import threading

import pytest

from evalframe.core.completion import Usage
from evalframe.core.errors import LogUnavailable, ModelUnavailable
from evalframe.core.order import SampleOrder, seeded
from evalframe.core.recorder import record_match, record_sampling, record_unscored
from evalframe.core.scope import current_scope, note_waiting
from evalframe.core.specs import RunSpec
from evalframe.loop import Loop
from evalframe.recorders.memory import MemoryRecorder
from evalframe.resilience.failures import FailurePolicy


class Asked:
    """The least the loop asks of an eval."""

    name = "base.dev.v1"
    seed = 7

    def __init__(self, eval_sample):
        self.eval_sample = eval_sample

    def on_limit(self, sample, rng, limit):
        record_match(False, limit=limit.kind)


@pytest.fixture
def recorder():
    return MemoryRecorder(RunSpec(["fn"], "base.dev.v1", "base", "dev"))


LOOPS = [{"sequential": True}, {"workers": 1}, {"workers": 8}]


@pytest.mark.parametrize("settings", LOOPS, ids=str)
def test_results_come_in_the_order_of_the_samples(recorder, settings):
    assert Loop(**settings).run(Asked(lambda sample, rng: sample * 2), recorder, list(range(50))) == [2 * number for number in range(50)]


def test_samples_are_asked_in_the_order_of_the_mould(recorder):
    asked = []
    Loop(sequential=True, order=SampleOrder(5)).run(Asked(lambda sample, rng: asked.append(sample)), recorder, list(range(20)))
    order = list(range(20))
    random.Random(123).shuffle(order)
    assert asked == order[:5]


@pytest.mark.parametrize("total", [0, 1, 2, 1000])
def test_an_array_is_shuffled_like_a_list(total):
    order = list(range(total))
    random.Random(123).shuffle(order)
    assert list(SampleOrder().indices(total)) == order


def test_the_randomness_of_a_sample_is_the_moulds(recorder):
    drawn = {}

    def draw(sample, rng):
        drawn[current_scope().sample_id] = rng.random()

    Loop().run(Asked(draw), recorder, ["a", "b", "c"])
    assert drawn == {f"base.dev.{n}": random.Random(f"base.dev.{n}:7".encode()).random() for n in range(3)}


def test_a_later_epoch_has_other_randomness():
    assert seeded("s", 7).random() != seeded("s", 7, epoch=2).random()
    assert seeded("s", 7, epoch=2).random() == random.Random(b"s:7:2").random()


def test_a_coroutine_function_is_awaited_and_keeps_its_scope(recorder):
    import asyncio

    async def ask(sample, rng):
        await asyncio.sleep(0.001)
        record_match(True, picked=sample)
        return sample

    assert Loop(workers=5).run(Asked(ask), recorder, list(range(20))) == list(range(20))
    assert all(event.sample_id == f"base.dev.{event.data['picked']}" for event in recorder.get_events("match"))


def test_a_function_that_returns_an_awaitable_is_awaited_too(recorder):
    async def later(sample):
        return sample + 1

    assert Loop(workers=2).run(Asked(lambda sample, rng: later(sample)), recorder, [1, 2]) == [2, 3]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), AssertionError()], ids=repr)
@pytest.mark.parametrize("settings", LOOPS, ids=str)
def test_an_error_is_an_event_and_the_rest_goes_on(recorder, error, settings):
    def ask(sample, rng):
        record_match(True)
        if sample == 3:
            raise error
        return sample

    loop = Loop(**settings)
    assert loop.run(Asked(ask), recorder, list(range(10))) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert (loop.tally.counts.completed, loop.tally.counts.error) == (9, 1)
    ended = {event.sample_id: event.data for event in recorder.get_events("sample")}
    assert ended["base.dev.3"]["status"] == "error"
    assert ended["base.dev.3"]["error"]["type"] == type(error).__name__
    assert "Traceback" in ended["base.dev.3"]["error"]["traceback"]
    assert len(recorder.get_events("match")) == 9


def test_the_line_of_a_sample_tells_what_it_cost(recorder):
    def ask(sample, rng):
        record_sampling("q", "a", model="m", usage=Usage(input_tokens=10, output_tokens=2).to_dict())
        record_sampling("q", "a", model="m", usage={"prompt_tokens": 1, "completion_tokens": 1})
        record_sampling("q", "a", model="m", usage=None)
        note_waiting(1.5)
        return {"score": 1}

    loop = Loop()
    loop.run(Asked(ask), recorder, ["x"])
    (line,) = [event.data for event in recorder.get_events("sample")]
    assert line["usage"]["m"]["input_tokens"] == 11
    assert line["usage"]["m"]["unknown"] == 1
    assert line["waiting_seconds"] == 1.5
    assert line["result"] == {"score": 1}
    assert loop.tally.usage["m"].output_tokens == 3
    assert loop.tally.usage["m"].calls == 3


def test_the_hash_is_of_the_row_as_it_was_and_the_same_for_the_same_content(recorder):
    def spoil(sample, rng):
        sample["input"] = "spoilt"

    Loop(sequential=True).run(Asked(spoil), recorder, [{"input": "x", "ideal": "y"}, {"ideal": "y", "input": "x"}, {"input": "z"}])
    hashes = {event.sample_id: event.data["input_sha256"] for event in recorder.get_events("sample")}
    assert hashes["base.dev.0"] == hashes["base.dev.1"] != hashes["base.dev.2"]


def test_a_result_that_json_does_not_know_is_handed_back_but_not_logged(recorder):
    marker = object()
    assert Loop().run(Asked(lambda sample, rng: marker), recorder, [1]) == [marker]
    assert "result" not in recorder.get_events("sample")[0].data


def test_a_model_that_refuses_everyone_ends_the_run(recorder):
    asked = []

    def ask(sample, rng):
        asked.append(sample)
        raise ModelUnavailable("401: wrong key")

    loop = Loop(workers=2)
    loop.run(Asked(ask), recorder, list(range(500)))
    assert isinstance(loop.fatal, ModelUnavailable)
    assert len(asked) < 500


def test_a_model_that_answered_before_may_refuse_one_sample(recorder):
    def ask(sample, rng):
        if current_scope().sample_id == "base.dev.0":
            raise ModelUnavailable("404")
        return sample

    loop = Loop(sequential=True)
    loop.run(Asked(ask), recorder, list(range(20)))  # the mould's order does not begin with sample 0
    assert loop.fatal is None
    assert loop.tally.counts.completed == 19


def test_a_run_stops_at_its_threshold_only_when_told_to(recorder):
    def fail(sample, rng):
        raise ValueError(sample)

    loop = Loop(sequential=True, failure=FailurePolicy(3, continue_on_fail=False))
    loop.run(Asked(fail), recorder, list(range(100)))
    assert loop.tally.counts.error == 4


def test_a_log_that_cannot_be_written_stops_the_run(recorder):
    asked = []

    def ask(sample, rng):
        asked.append(sample)
        raise LogUnavailable("disk full")

    with pytest.raises(LogUnavailable):
        Loop(workers=3).run(Asked(ask), recorder, list(range(200)))
    assert len(asked) < 200


def test_what_is_in_flight_when_the_grace_is_over_is_interrupted(recorder):
    release, begun = threading.Event(), threading.Event()

    def ask(sample, rng):
        if sample == 0:
            begun.set()
            release.wait(30)
            record_match(True)  # too late: nobody listens any more
            return "late"
        begun.wait(30)
        loop.interrupt.note(2)
        return "done"

    loop = Loop(workers=2, grace_s=0.2)
    assert loop.run(Asked(ask), recorder, [0, 1]) == ["done"]
    release.set()
    ended = {event.sample_id: event.data["status"] for event in recorder.get_events("sample")}
    assert ended == {"base.dev.0": "interrupted", "base.dev.1": "completed"}
    assert (loop.tally.counts.completed, loop.tally.counts.interrupted) == (1, 1)
    assert loop.interrupt.exit_code == 130
    assert list(recorder.get_events("match")) == []


def test_a_sample_without_any_verdict_is_unscored(recorder):
    def ask(sample, rng):
        if sample:
            record_match(True)
        record_unscored("cannot tell")

    loop = Loop()
    loop.run(Asked(ask), recorder, [0, 1])
    assert loop.tally.counts.unscored == 1


def test_secrets_in_errors_are_masked(recorder):
    def ask(sample, rng):
        raise ValueError("key sk-123")

    loop = Loop(mask=lambda text: text.replace("sk-123", "***"))
    loop.run(Asked(ask), recorder, [1])
    assert "sk-123" not in json.dumps(recorder.get_events("sample")[0].data)
    assert list(loop.tally.errors) == ["ValueError: key ***"]


def test_results_do_not_depend_on_the_number_of_threads():
    outcomes = []
    for workers in (1, 2, 16):
        recorder = MemoryRecorder(RunSpec(["fn"], "base.dev.v1", "base", "dev"))
        Loop(workers=workers).run(Asked(lambda sample, rng: record_match(rng.random() < 0.5)), recorder, list(range(60)))
        outcomes.append({(event.sample_id, event.data["correct"]) for event in recorder.get_events("match")})
    assert outcomes[0] == outcomes[1] == outcomes[2]


@pytest.mark.parametrize(("environ", "workers", "sequential"), [
    ({}, 10, False), ({"EVALS_THREADS": "3"}, 3, False), ({"EVALS_THREADS": "x"}, 10, False), ({"EVALS_SEQUENTIAL": "yes"}, 10, True),
])  # fmt: skip
def test_an_eval_run_by_hand_heeds_the_environment(environ, workers, sequential):
    loop = Loop.from_environment(environ)
    assert (loop.workers, loop.sequential) == (workers, sequential)


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "error", [Unspeakable(), KeyboardInterrupt(), RecursionError("deep")], ids=["no message", "interrupt", "recursion"]
)
@pytest.mark.parametrize("settings", LOOPS, ids=str)
def test_even_odd_exceptions_are_only_errors(recorder, error, settings):
    def ask(sample, rng):
        if sample == 1:
            raise error
        return sample

    loop = Loop(**settings)
    assert loop.run(Asked(ask), recorder, [0, 1, 2]) == [0, 2]
    assert loop.tally.counts.error == 1


def test_an_observer_that_fails_does_not_stop_the_run(recorder):
    class Gone:
        def begin(self, total):
            pass

        def ended(self, counts):
            raise BrokenPipeError

        def finish(self):
            raise BrokenPipeError

    assert Loop(observer=Gone()).run(Asked(lambda sample, rng: sample), recorder, [1, 2, 3]) == [1, 2, 3]


def test_errors_that_differ_only_in_their_seconds_are_counted_together(recorder):
    def ask(sample, rng):
        raise ValueError(f"gave up after 3 tries in {sample}.5 s")

    loop = Loop()
    loop.run(Asked(ask), recorder, [1, 2, 3])
    assert loop.tally.errors == {"ValueError: gave up after 3 tries in … s": 3}
