import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from evalframe.core.errors import BadSetting
from evalframe.core.recorder import record_match
from evalframe.core.scope import SampleScope
from evalframe.core.secrets import Secrets
from evalframe.core.specs import RunSpec
from evalframe.recorders.http import HttpRecorder
from evalframe.recorders.jsonl import JsonlRecorder
from evalframe.recorders.tee import TeeRecorder


def spec():
    return RunSpec(["fn"], "a.dev.v0", "a", "dev")


class Collector(ThreadingHTTPServer):
    """Takes events; answers each POST as it is told, and 200 when it is told nothing more."""

    def __init__(self, statuses=(), always=200):
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses = list(statuses)
        self.always = always
        self.taken = []
        self.posts = 0
        self.open = threading.Event()
        self.open.set()
        self.lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/e"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one packet

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.open.wait()
        with self.server.lock:
            self.server.posts += 1
            status = self.server.statuses.pop(0) if self.server.statuses else self.server.always
            if 200 <= status < 300:
                self.server.taken.append(body)
        self.send_response(status)
        self.send_header("Content-Length", "2")
        if status == 302:
            self.send_header("Location", self.server.url)
        self.end_headers()
        self.wfile.write(b"ok")

    def do_GET(self):  # where a redirected POST would end up
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments):
        pass


@contextmanager
def collecting(**options):
    with Collector(**options) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.open.set()
            server.shutdown()
            thread.join()


def recorder(server, url=None, **options):
    return HttpRecorder(spec(), url or server.url, **{"sleep": lambda seconds: None, **options})


def record(made, count):
    for number in range(count):
        made.record_extra({"number": number}, sample_id=f"a.dev.{number}")


def numbers(server):
    return [line["data"]["number"] for batch in server.taken for line in batch if "data" in line]


def test_events_are_posted_in_batches_with_the_report_at_the_end():
    with collecting() as server:
        made = recorder(server, batch_size=5)
        record(made, 12)
        made.record_final_report({"accuracy": 1.0}, status="success")
        made.close()
        assert numbers(server) == list(range(12))
        assert max(map(len, server.taken)) <= 5
        assert server.taken[-1][-1] == {"final_report": {"accuracy": 1.0}, "run_id": made.run_spec.run_id, "status": "success"}
        assert set(server.taken[0][0]) == {"run_id", "event_id", "sample_id", "type", "data", "created_by", "created_at"}
    assert (made.delivered, made.undelivered, made.failed, made.summary()) == (13, 0, False, None)


def test_a_batch_that_is_refused_is_sent_again():  # REC-03: every second POST fails
    with collecting(statuses=[500, 200] * 4) as server:
        made = recorder(server, batch_size=5)
        record(made, 20)
        made.close()
        assert sorted(numbers(server)) == list(range(20))
    assert (made.delivered, made.undelivered, made.failed) == (20, 0, False)


@pytest.mark.parametrize(
    ("statuses", "always", "cause"),
    [
        ([], 500, "HTTP 500"),
        ([], 404, "HTTP 404"),
        ([], 302, "HTTP 302"),  # following it would turn the POST into a GET that seems to succeed
    ],
)
def test_events_that_nobody_takes_are_counted_and_told(statuses, always, cause):  # REC-03: every POST fails
    with collecting(statuses=statuses, always=always) as server:
        made = recorder(server, batch_size=5)
        record(made, 40)
        made.close()
        url = server.url
    assert (made.delivered, made.undelivered, made.failed_share, made.failed) == (0, 40, 1.0, True)
    assert made.summary() == f"40 of 40 events could not be delivered to {url} (last cause: {cause}); all of them are in the log."


def test_once_the_server_is_known_to_be_away_a_batch_is_tried_once():
    with collecting(always=503) as server:
        made = recorder(server, batch_size=1, tries=3)
        record(made, 4)
        made.close()
        assert server.posts == 3 + 1 + 1 + 1


@pytest.mark.parametrize(("threshold", "failed"), [(5, True), (9.9, True), (10, False), (100, False)])
def test_a_small_share_may_be_lost(threshold, failed):
    with collecting(statuses=[500]) as server:
        made = recorder(server, batch_size=1, tries=1, fail_percent_threshold=threshold)
        record(made, 10)
        made.close()
    assert (made.delivered, made.undelivered, made.failed) == (9, 1, failed)


def test_the_cause_is_told_without_secrets():
    made = HttpRecorder(spec(), "http://me:hidden@127.0.0.1:9/e?key=hidden", sleep=lambda seconds: None)
    record(made, 3)
    made.close()
    told = made.summary()
    assert told is not None
    assert "3 of 3 events could not be delivered to http://127.0.0.1:9/e (last cause: Connection refused)" in told
    assert "hidden" not in told


def test_secrets_are_not_sent():
    with collecting() as server:
        made = recorder(server, secrets=Secrets(["sk-very-secret"]))
        made.record_extra({"number": 0, "text": "my sk-very-secret"}, sample_id="a.dev.0")
        made.close()
        assert server.taken[0][0]["data"]["text"] == "my ***"


def test_a_server_that_never_answers_does_not_hold_up_the_end():
    with collecting() as server:
        server.open.clear()
        made = recorder(server, batch_size=2, close_timeout_s=0.05)
        record(made, 7)
        made.close()
        made.close()
        assert (made.delivered, made.undelivered, made.failed) == (0, 7, True)
        assert "not done within 0.05 s of the run's end" in str(made.summary())
        server.open.set()  # what the thread still brings home is not counted twice
        made._sender.join()
        assert made.delivered + made.undelivered == 7


def test_a_server_that_is_slower_than_its_timeout_is_told():
    with collecting() as server:
        server.open.clear()
        made = recorder(server, tries=1, timeout_s=0.05)
        record(made, 1)
        made.close()
    assert "last cause: no answer within 0.05 s" in str(made.summary())


def test_recording_waits_for_a_slow_server_and_nothing_is_lost():
    with collecting() as server:
        made = recorder(server, batch_size=2, queue_events=2)
        record(made, 50)
        made.close()
        assert numbers(server) == list(range(50))
    assert (made.delivered, made.undelivered) == (50, 0)


def test_recording_does_not_wait_for_a_server_that_is_away():
    with collecting(always=500) as server:
        made = recorder(server, batch_size=2, queue_events=2)
        record(made, 200)
        made.close()
    assert (made.delivered, made.undelivered) == (0, 200)


def test_what_is_recorded_after_the_end_is_counted_as_undelivered():
    with collecting() as server:
        made = recorder(server)
        record(made, 1)
        made.close()
        record(made, 1)
    assert (made.delivered, made.undelivered) == (1, 1)


def test_a_flush_sends_what_there_is():
    with collecting() as server:
        made = recorder(server)
        record(made, 1)
        made.flush()
        made.close()
        assert numbers(server) == [0]


def test_many_threads_may_record_at_once():
    with collecting() as server:
        made = recorder(server, batch_size=7, queue_events=20)
        threads = [threading.Thread(target=record, args=(made, 50)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        made.close()
        ids = [line["event_id"] for batch in server.taken for line in batch]
    assert sorted(ids) == list(range(400))


@pytest.mark.parametrize("url", ["ftp://host/e", "host/e", ""])
def test_other_urls_are_refused(url):
    with pytest.raises(BadSetting, match="can be sent to http"):
        HttpRecorder(spec(), url)


def test_an_unused_recorder_has_nothing_to_say():
    made = HttpRecorder(spec(), "http://127.0.0.1:9/e")
    made.flush()
    made.close()
    assert (made.failed, made.failed_share, made.summary()) == (False, 0.0, None)
    assert made.get_events("match") == []


def test_the_log_holds_every_event_once_whatever_the_collector_does(tmp_path):  # REC-03
    with collecting(always=500) as server:
        delivery = recorder(server, batch_size=5)
        log = JsonlRecorder(spec(), tmp_path / "log.jsonl")
        both = TeeRecorder(log, delivery)
        for number in range(10):
            scope = SampleScope(both, f"a.dev.{number}")
            both.begin(scope)
            with both.in_scope(scope):
                record_match(True)
            both.end(scope, {"status": "completed"})
        both.close()
    logged = [json.loads(line) for line in log.path.read_bytes().splitlines()][1:]
    assert sorted(line["event_id"] for line in logged) == list(range(20))
    assert delivery.undelivered == 20
    assert delivery.failed
