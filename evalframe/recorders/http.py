"""
Send events to a URL while the run goes on: an observer beside the log, which holds every event whatever happens here.

An event is encoded the moment it is recorded and waits in a bounded queue; one thread posts batches, each a JSON array of the log's lines;
the final report is the last element of the last. A batch counts as delivered once the server has said 2xx. A batch that was received but
not acknowledged comes again: keep the first of each `event_id`.
Covers: errors and silence of the server, with a few tries a batch; a server that stays away (the run does not wait for it); nothing is
dropped without being counted.
Does not cover: redirects (a POST would become a GET on its way), and events of a process that is killed. For these there is the log.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from evalframe.core.errors import BadSetting
from evalframe.core.event import Event
from evalframe.core.recorder import Recorder
from evalframe.core.secrets import Secrets
from evalframe.core.specs import RunSpec
from evalframe.storage import json_text
from evalframe.storage.files import reason, shown

if TYPE_CHECKING:
    from requests import Session

QUEUE_EVENTS = 10_000
FIRST_WAIT_S = 0.2
"""Before the second try; twice as long before each further one."""
LINGER_S = 1.0
"""How long an event waits for its batch to fill up."""
MOST_READ_BYTES = 1 << 16
USER_AGENT = "evalframe"


class HttpRecorder(Recorder):
    """
    Post events in batches.

    Args:
        run_spec: The run.
        url: Where to; http or https.
        batch_size: Events in one request.
        fail_percent_threshold: Per cent of the events that may stay undelivered before `failed` says so.
        timeout_s: Seconds for connecting, and for each silence of the server.
        tries: How often a batch is sent at most; once, while the server is known to be away.
        close_timeout_s: Seconds that `close` waits for what is still queued.
        queue_events: Events that may wait. When there are more, recording waits for the server, unless it is known to be away.
        show_epoch: Whether every event carries its epoch.
        secrets: What must not be sent.
        sleep: Waits some seconds.

    Attributes:
        delivered: Events that the server has taken.
        undelivered: Events that it has not, and will not.

    Raises:
        BadSetting: If the URL is none of http or https.
    """

    def __init__(
        self,
        run_spec: RunSpec,
        url: str,
        *,
        batch_size: int = 100,
        fail_percent_threshold: float = 5,
        timeout_s: float = 10.0,
        tries: int = 3,
        close_timeout_s: float = 30.0,
        queue_events: int = QUEUE_EVENTS,
        show_epoch: bool = False,
        secrets: Secrets | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(run_spec)
        if not url.lower().startswith(("http://", "https://")):
            raise BadSetting(f'events can be sent to http:// and https:// URLs, not to "{shown(url)}".', do="Give one with --http-run-url.")
        self.url = shown(url)
        self._address = url
        self._batch_size = max(1, batch_size)
        self._threshold = fail_percent_threshold / 100
        self._timeout_s = timeout_s
        self._tries = max(1, tries)
        self._close_timeout_s = close_timeout_s
        self._queue_events = max(self._batch_size, queue_events)
        self._show_epoch = show_epoch
        self._secrets = secrets or Secrets()
        self._sleep = sleep
        self._patience_s = 2 * timeout_s * self._tries  # an exchange has two silences to wait through: connecting, answering
        self.delivered = 0
        self.undelivered = 0
        self._cause = ""
        self._away = False
        self._queue: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._hurry = False
        self._closed = False
        self._given_up = False
        self._in_flight = 0
        self._sender: threading.Thread | None = None

    # ------------------------------------------------------------------ what is recorded

    def write(self, event: Event) -> None:
        self._put(event.to_line(show_epoch=self._show_epoch))

    def write_line(self, line: Mapping[str, Any]) -> None:
        self._put(line)

    def get_events(self, type: str) -> Sequence[Event]:
        return []

    def flush(self) -> None:
        """Ask for what is queued to be sent now, without waiting for it."""
        with self._changed:
            self._hurry = bool(self._queue)
            self._changed.notify_all()

    def close(self) -> None:
        """Send what is queued, and wait for that as long as `close_timeout_s` allows; what is left then counts as undelivered."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            sender = self._sender
            given_up = self._given_up
        if sender is None or given_up:
            return
        sender.join(self._close_timeout_s)
        with self._changed:
            if not self._given_up and sender.is_alive():
                self._given_up = True  # what the thread still does is not counted any more
                self._undeliver(len(self._queue) + self._in_flight, f"not done within {self._close_timeout_s:g} s of the run's end")
                self._queue.clear()

    def _put(self, line: Mapping[str, Any]) -> None:
        encoded = json_text.dumps(line)
        if self._secrets.are_in(encoded):
            encoded = json_text.dumps(self._secrets.mask_line(json_text.loads(encoded)))
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._queue) < self._queue_events or self._away or self._closed, self._patience_s):
                self._away, self._cause = True, f"no answer within {self._patience_s:g} s"
            if self._closed:
                self._undeliver(1, "recorded after the recorder was closed")
            elif len(self._queue) >= self._queue_events:
                self._undeliver(1, self._cause)
            else:
                self._queue.append(encoded)
                if len(self._queue) in (1, self._batch_size):
                    self._changed.notify_all()
            if self._sender is None and not self._closed:
                self._sender = threading.Thread(target=self._send_all, name="evalframe-http-recorder", daemon=True)
                self._sender.start()

    # ------------------------------------------------------------------ what became of it

    @property
    def failed_share(self) -> float:
        """The share of events that could not be delivered, in [0, 1]."""
        total = self.delivered + self.undelivered
        return self.undelivered / total if total else 0.0

    @property
    def failed(self) -> bool:
        """Whether that is more than may be."""
        return self.failed_share > self._threshold

    def summary(self) -> str | None:
        """One sentence on what could not be delivered; None where all could."""
        if not self.undelivered:
            return None
        total = self.delivered + self.undelivered
        return (
            f"{self.undelivered} of {total} events could not be delivered to {self.url} (last cause: {self._cause}); "
            "all of them are in the log."
        )

    # ------------------------------------------------------------------ the thread that sends

    def _send_all(self) -> None:
        import requests

        with requests.Session() as session:
            while batch := self._next_batch():
                fault = self._deliver(session, batch)
                with self._changed:
                    self._away = fault is not None
                    self._in_flight = 0
                    if not self._given_up:
                        if fault is None:
                            self.delivered += len(batch)
                        else:
                            self._undeliver(len(batch), fault)
                    self._changed.notify_all()

    def _next_batch(self) -> list[bytes]:
        """The next events to send, as many as there are when the batch is full or old enough; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            self._changed.wait_for(lambda: len(self._queue) >= self._batch_size or self._closed or self._hurry, LINGER_S)
            batch = [self._queue.popleft() for _ in range(min(self._batch_size, len(self._queue)))]
            self._hurry = self._hurry and bool(self._queue)
            self._in_flight = len(batch)
            self._changed.notify_all()
            return batch

    def _deliver(self, session: Session, batch: Sequence[bytes]) -> str | None:
        """Post a batch; None once the server has taken it, else why it has not."""
        body = b"[" + b",".join(batch) + b"]"
        fault: str | None = None
        for attempt in range(1 if self._away else self._tries):
            if attempt:
                self._sleep(FIRST_WAIT_S * 2 ** (attempt - 1))
            fault = self._post(session, body)
            if fault is None:
                return None
        return fault

    def _post(self, session: Session, body: bytes) -> str | None:
        """Post once; None if the server has taken it, else why it has not, without the URL."""
        import requests

        headers = {"Content-Type": "application/json", "User-Agent": USER_AGENT}
        try:
            with session.post(
                self._address, data=body, headers=headers, timeout=self._timeout_s, allow_redirects=False, stream=True
            ) as response:
                taken = 200 <= response.status_code < 300
                with suppress(Exception):  # what the server has to say besides does not matter; read, it leaves the connection free
                    response.raw.read(MOST_READ_BYTES)
                return None if taken else f"HTTP {response.status_code}"
        except requests.Timeout:
            return f"no answer within {self._timeout_s:g} s"
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, the events are undelivered and the run goes on
            return reason(error)

    def _undeliver(self, events: int, cause: str) -> None:
        if events:
            self.undelivered += events
            self._cause = cause
