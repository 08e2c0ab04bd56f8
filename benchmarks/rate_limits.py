"""
How a crowd of callers gets on with an endpoint that bears 50 requests a second, fails in bursts, asks for absurd pauses, falls silent, or
trickles.

    python benchmarks/rate_limits.py            # some six minutes; --quick: two
    python benchmarks/rate_limits.py --executor coroutines

The server is a process of its own: a token bucket of 50 a second (and as many at once at first), 20 ms for an answer. The ideal is what a
caller who knows the rate would need. `refused` counts answers 429, `worst second` the good answers of the slowest second but the last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from evalframe import ask
from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.core.errors import EvalframeError
from evalframe.resilience.rates import Limiters

RATE, LATENCY_S = 50.0, 0.02


class Bucket:
    """So many requests a second."""

    def __init__(self, rate):
        self.rate, self.tokens, self.at, self.lock = rate, rate, time.monotonic(), threading.Lock()

    def take(self):
        with self.lock:
            now = time.monotonic()
            self.tokens = min(self.rate, self.tokens + (now - self.at) * self.rate)
            self.at = now
            if self.tokens < 1:
                return False
            self.tokens -= 1
            return True


def serve(pipe, kind):
    bucket, began, served = Bucket(RATE), [None], [0]
    body = json.dumps(
        {"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    ).encode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            began[0] = began[0] or time.monotonic()
            since = time.monotonic() - began[0]
            if kind == "silent" and served[0] >= 50:
                time.sleep(3600)
            if kind == "trickle":
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    time.sleep(1)
                return
            if kind == "bursts of 500" and since % 5 < 2:
                self.answer(500, b"{}")
            elif kind == "Retry-After: 3600" and since < 1:
                self.answer(429, b"{}", "Retry-After: 3600")
            elif not bucket.take():
                self.answer(429, b"{}", {"Retry-After: 1": "Retry-After: 1", "retry-after-ms: 50": "retry-after-ms: 50"}.get(kind))
            else:
                time.sleep(LATENCY_S)
                served[0] += 1
                self.answer(200, body)

        def answer(self, status, content, header=None):
            lines = [f"HTTP/1.1 {status} x", f"content-length: {len(content)}", *([header] if header else []), "", ""]
            self.wfile.write("\r\n".join(lines).encode() + content)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads, request_queue_size, block_on_close = True, 1024, False

        def handle_error(self, *_):
            pass

    server = Server(("127.0.0.1", 0), Handler)
    pipe.send(server.server_address[1])
    server.serve_forever()


def run(kind, workers, requests, executor, **arguments):
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(theirs, kind), daemon=True)
    process.start()
    limiters = Limiters()
    model = OpenAIChatCompletionFn(
        "m", base_url=f"http://127.0.0.1:{ours.recv()}/v1", max_connections=workers, limiters=limiters, **arguments
    )
    began, ends, errors = time.monotonic(), [], Counter()

    def one(_):
        try:
            model("2+2?")
            ends.append(time.monotonic() - began)
        except EvalframeError as error:
            errors[f"{type(error).__name__}: {str(error).partition('The last time: ')[2][:60]}"] += 1

    async def crowd():
        gate = asyncio.Semaphore(workers)

        async def one_task():
            async with gate:
                try:
                    await ask(model, "2+2?")
                    ends.append(time.monotonic() - began)
                except EvalframeError as error:
                    errors[f"{type(error).__name__}: {str(error).partition('The last time: ')[2][:60]}"] += 1

        await asyncio.gather(*(one_task() for _ in range(requests)))

    if executor == "coroutines":
        asyncio.run(crowd())
    else:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(one, range(requests)))
    took = time.monotonic() - began
    process.kill()
    told = limiters.of(*model.account()).told
    seconds = Counter(int(end) for end in ends)
    whole = [seconds[second] for second in range(int(took))]
    return took, len(ends), errors, told, whole


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--executor", default="threads")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    requests = 200 if asked.quick else 500
    print(f"{os.cpu_count()} processors, {asked.executor}, {requests} requests")
    print(f"{'server':22}{'workers':>8}{'seconds':>9}{'ideal':>7}{'ratio':>7}{'answered':>10}{'refused':>9}{'worst second':>14}")
    rows = [(kind, workers, requests, {}) for kind in ("Retry-After: 1", "retry-after-ms: 50", "no hint") for workers in (10, 50, 200)]
    rows += [("bursts of 500", workers, requests, {}) for workers in (10, 50, 200)]
    rows += [("Retry-After: 3600", 50, requests, {"max_retry_after_s": 5})]
    rows += [("silent", 50, 120, {"timeout_s": 1, "max_retries": 2}), ("trickle", 10, 10, {"timeout_s": 2, "max_retries": 1})]
    for kind, workers, many, arguments in rows:
        took, answered, errors, told, whole = run(kind, workers, many, asked.executor, **arguments)
        ideal = max(many * LATENCY_S / workers, (many - RATE) / RATE) if answered == many else float("nan")
        if kind == "bursts of 500":  # two seconds of every five are lost
            ideal = ideal // 3 * 5 + (2 + ideal % 3 if ideal % 3 else 0)
        worst = min(whole[:-1]) if len(whole) > 1 else 0
        print(f"{kind:22}{workers:8}{took:9.1f}{ideal:7.1f}{took / ideal:7.2f}{answered:10}{told.times:9}{worst:14}")
        for error, times in errors.most_common(2):
            print(f"    {times} x {error}")


if __name__ == "__main__":
    main()
