"""Signals as they come: to a process of its own, since the second one ends it."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from evalframe.resilience.interrupts import SIGNALS, Interrupt

HEAD = """
import os, signal, sys, threading, time
from evalframe.resilience.interrupts import Interrupt

def say(*words):
    print(*words, flush=True)

"""
LISTENS = """
interrupt = Interrupt()
interrupt.last_words = "to go on: evalframe resume 'a b.jsonl'"
first = []
with interrupt.watched_by(lambda: first.append(True)), interrupt.listening():
    say("ready")
    while not first:
        time.sleep(0.01)
    say("first", interrupt.signal, interrupt.exit_code)
    sys.stdin.readline()
say("over", interrupt.exit_code)
sys.exit(interrupt.exit_code)
"""


@pytest.fixture
def process():
    """Runs a script; what is left of it at the end of the test is killed."""
    started = []

    def start(body, *, before=()):
        made = subprocess.Popen(
            [*before, sys.executable, "-c", HEAD + textwrap.dedent(body)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True,
        )  # fmt: skip
        started.append(made)
        return made

    yield start
    for made in started:
        if made.poll() is None:
            made.kill()
        made.communicate()


def said(made):
    """The next line that the process says; one that says nothing for long is killed, and has said nothing."""
    guard = threading.Timer(30, made.kill)
    guard.start()
    try:
        return made.stdout.readline().strip()
    finally:
        guard.cancel()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks_and_the_process_ends_in_its_own_time(process, number):
    made = process(LISTENS)
    assert said(made) == "ready"
    made.send_signal(number)
    assert said(made) == f"first {int(number)} {128 + number}"
    assert made.poll() is None
    out, err = made.communicate("go on\n", timeout=30)
    assert out.strip() == f"over {128 + number}"
    assert (made.returncode, err) == (128 + number, "")


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_second_ends_it_at_once_with_its_own_code_and_the_last_words(process, first, second):
    made = process(LISTENS)
    assert said(made) == "ready"
    made.send_signal(first)
    assert said(made).startswith("first")
    made.send_signal(second)
    out, err = made.communicate(timeout=30)
    assert made.returncode == 128 + second
    assert "over" not in out
    assert err.splitlines()[-1] == "to go on: evalframe resume 'a b.jsonl'"
    assert err.endswith("\n")
    assert "\\n" not in err


def test_the_second_ends_it_though_threads_hang_and_a_finally_waits(process):
    made = process(
        """
        interrupt = Interrupt()
        threading.Thread(target=time.sleep, args=(3600,)).start()  # no daemon
        with interrupt.listening():
            say("ready")
            try:
                while interrupt.signal is None:
                    time.sleep(0.01)
                say("first")
                time.sleep(3600)
            finally:
                time.sleep(3600)
        """
    )
    assert said(made) == "ready"
    made.send_signal(signal.SIGINT)
    assert said(made) == "first"
    made.send_signal(signal.SIGINT)
    _, err = made.communicate(timeout=30)
    assert (made.returncode, err.strip()) == (130, "stopped at once")


def test_the_second_ends_it_though_nobody_reads_stderr_any_more(process):
    made = process(LISTENS)
    assert said(made) == "ready"
    made.stderr.close()
    made.stderr = None
    made.send_signal(signal.SIGHUP)
    assert said(made).startswith("first")
    made.send_signal(signal.SIGTERM)
    assert made.wait(timeout=30) == 143


def test_last_words_that_no_encoding_can_spell_are_spelt_out(process):
    made = process(LISTENS.replace("a b.jsonl", "a\\udcff b.jsonl"))
    assert said(made) == "ready"
    made.send_signal(signal.SIGINT)
    assert said(made).startswith("first")
    made.send_signal(signal.SIGINT)
    _, err = made.communicate(timeout=30)
    assert made.returncode == 130
    assert re.search(r"a\\udcff b", err)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_closed_terminal_that_the_process_was_told_to_ignore_stays_ignored(process, number):
    made = process(
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        + LISTENS.replace('say("ready")', 'say("ready", signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)')
    )
    assert said(made) == "ready True"
    for _ in range(3):
        made.send_signal(signal.SIGHUP)
    made.send_signal(number)
    assert said(made) == f"first {int(number)} {128 + number}"
    made.send_signal(signal.SIGHUP)  # is no second one
    out, err = made.communicate("go on\n", timeout=30)
    assert (made.returncode, out.strip(), err) == (128 + number, f"over {128 + number}", "")


def test_ctrl_c_is_taken_though_a_shell_told_its_background_job_to_ignore_it(process):
    made = process(
        """
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        interrupt = Interrupt()
        with interrupt.listening():
            os.kill(os.getpid(), signal.SIGINT)
            say(interrupt.signal)
        os.kill(os.getpid(), signal.SIGINT)
        say(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
        """
    )
    assert made.communicate(timeout=30)[0].split() == ["2", "True"]


def test_under_nohup_a_closed_terminal_stops_nothing(process):
    made = process(LISTENS, before=["nohup"])
    assert said(made) == "ready"
    for _ in range(3):
        made.send_signal(signal.SIGHUP)
    made.send_signal(signal.SIGTERM)
    assert said(made) == "first 15 143"
    made.send_signal(signal.SIGHUP)
    out, _ = made.communicate("go on\n", timeout=30)
    assert (made.returncode, out.strip()) == (143, "over 143")


def test_after_the_block_signals_do_what_they_did_before(process):
    made = process(
        """
        def own(number, frame):
            say("own", number)
        signal.signal(signal.SIGTERM, own)
        interrupt = Interrupt()
        with interrupt.listening():
            with interrupt.listening():  # inside of another it does nothing
                pass
            os.kill(os.getpid(), signal.SIGTERM)
            say("inside", interrupt.signal)
        os.kill(os.getpid(), signal.SIGTERM)
        say("int", signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGHUP) is signal.SIG_DFL)
        with Interrupt().listening():
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        """
    )
    out, err = made.communicate(timeout=30)
    assert out.splitlines() == ["inside 15", "own 15", "int True True", "own 15"]
    assert (made.returncode, err) == (0, "")


def test_handlers_come_back_when_the_block_raises(process):
    made = process(
        """
        try:
            with Interrupt().listening():
                raise ValueError
        except ValueError:
            say(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
        """
    )
    assert made.communicate(timeout=30)[0].strip() == "True True"


def test_a_signal_in_the_midst_of_a_wait_of_the_same_thread_hangs_nothing(process):
    """
    A run that asks one sample after the other waits on the main thread, where handlers run, too: what a handler touches may hold no lock
    that the wait holds.
    """
    made = process(
        """
        import faulthandler, random
        from evalframe.core.executor import Stop
        faulthandler.dump_traceback_later(15, exit=True)
        signal.signal(signal.SIGALRM, lambda number, frame: interrupt.note(signal.SIGINT))
        draw = random.Random(1)
        for _ in range(3000):
            interrupt, stop = Interrupt(), Stop()
            with interrupt.watched_by(lambda: stop.request(grace_s=1)):
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.00002, 0.0004))
                while not stop.wait(0.00005):
                    pass
        say("over")
        """
    )
    out, err = made.communicate(timeout=60)
    assert (made.returncode, out.strip()) == (0, "over"), err


# ---------------------------------------------------------------------- without a process of its own


def test_before_any_signal_there_is_no_exit_code():
    interrupt = Interrupt()
    assert (interrupt.signal, interrupt.exit_code) == (None, None)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_exit_code_is_the_shells(number, code):
    interrupt = Interrupt()
    interrupt.note(number)
    assert (interrupt.signal, interrupt.exit_code) == (number, code)


def test_all_who_watch_are_told_once_and_who_comes_late_is_told_at_once():
    interrupt, told = Interrupt(), []
    with interrupt.watched_by(lambda: told.append("a")), interrupt.watched_by(lambda: told.append("b")):
        with interrupt.watched_by(lambda: told.append("gone")):
            pass
        interrupt.note(signal.SIGINT)
        assert told == ["a", "b"]
        with interrupt.watched_by(lambda: told.append("late")):
            assert told == ["a", "b", "late"]
    assert interrupt._watching == []


def test_off_the_main_thread_it_takes_no_signals_and_harms_nobody():
    before = {number: signal.getsignal(number) for number in SIGNALS}
    interrupt, seen = Interrupt(), []

    def run():
        with interrupt.listening() as same:
            seen.append((same is interrupt, {number: signal.getsignal(number) for number in SIGNALS} == before))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [(True, True)]


def test_a_signal_on_the_main_thread_of_this_process_is_taken_and_handlers_are_put_back():
    before = {number: signal.getsignal(number) for number in SIGNALS}
    interrupt = Interrupt()
    with interrupt.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupt.signal == signal.SIGTERM
    assert {number: signal.getsignal(number) for number in SIGNALS} == before
