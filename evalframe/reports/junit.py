"""
A run as JUnit XML, which CI systems show in their own view of tests: one test case a sample.

Covers: XML that is valid whatever a model wrote; wrong answers (failure) apart from errors (error) and from samples without a verdict
(skipped); a bounded size of each case and of memory; a file that appears whole or not at all.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from evalframe.core.errors import LogUnavailable

LONGEST = 2000
"""Characters of one text."""
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold in any spelling."""
REPLACEMENT = "\ufffd"

Status = Literal["correct", "incorrect", "error", "unscored"]
VERDICTS = {"incorrect": "failure", "error": "error", "unscored": "skipped"}
"""What JUnit calls them."""


@dataclass(frozen=True)
class SampleOutcome:
    """
    What became of one sample.

    Args:
        sample_id: Its name.
        status: How it ended.
        seconds: How long it took.
        message: What there is to say: the error, why there is no verdict.
        expected: The right answer.
        answer: What was answered.
    """

    sample_id: str
    status: Status
    seconds: float = 0.0
    message: str = ""
    expected: str | None = None
    answer: str | None = None


def write_junit(samples: Iterable[SampleOutcome], path: str | Path, *, name: str = "evalframe") -> None:
    """
    Write a JUnit file; one that is there already is replaced.

    Args:
        samples: The outcomes; each is looked at once.
        path: The file. Its folder is made where it is missing.
        name: The name of the test suite, such as that of the eval.

    Raises:
        LogUnavailable: If it cannot be written.
    """
    target = Path(path).expanduser()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as cases:
            counts, seconds = write_cases(samples, cases, name)
            cases.seek(0)
            if target.exists() and not target.is_file():  # /dev/stdout cannot be replaced, only written to
                with target.open("w", encoding="utf-8", newline="\n") as file:
                    write_suite(file, cases, name, counts, seconds)
                return
            write_whole(target.resolve(), cases, name, counts, seconds)
    except OSError as error:
        raise LogUnavailable(
            f"cannot write the JUnit file {target}: {error.strerror or error}.", do="Choose another place with --junit."
        ) from error


def write_whole(target: Path, cases: IO[str], name: str, counts: Counter[str], seconds: float) -> None:
    """Write beside the target, then put it in place in one step."""
    beside = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as file:
            write_suite(file, cases, name, counts, seconds)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def write_cases(samples: Iterable[SampleOutcome], file: IO[str], suite: str) -> tuple[Counter[str], float]:
    """Write the test cases; return how many of each kind there are, under JUnit's names, and their seconds together."""
    counts: Counter[str] = Counter()
    seconds = 0.0
    for sample in samples:
        counts["tests"] += 1
        counts[VERDICTS.get(sample.status, "passed")] += 1
        seconds += duration(sample.seconds)
        file.write(ElementTree.tostring(case_of(sample, suite), encoding="unicode") + "\n")
    return counts, seconds


def case_of(sample: SampleOutcome, suite: str) -> Element:
    """One test case."""
    case = Element("testcase", {"classname": safe(suite), "name": safe(sample.sample_id), "time": f"{duration(sample.seconds):.3f}"})
    verdict = VERDICTS.get(sample.status)
    if verdict is not None:
        message = sample.message or ("wrong answer" if sample.status == "incorrect" else sample.status)
        parts = (("expected", sample.expected), ("answer", sample.answer))
        told = SubElement(case, verdict, {"message": safe(message), "type": sample.status})
        told.text = "\n".join(f"{label}: {safe(text)}" for label, text in parts if text is not None)
    return case


def write_suite(file: IO[str], cases: IO[str], name: str, counts: Counter[str], seconds: float) -> None:
    """Write the whole file around the test cases."""
    attributes = {
        "name": safe(name),
        "tests": str(counts["tests"]),
        "failures": str(counts["failure"]),
        "errors": str(counts["error"]),
        "skipped": str(counts["skipped"]),
        "time": f"{seconds:.3f}",
    }
    file.write('<?xml version="1.0" encoding="utf-8"?>\n')
    for tag in ("testsuites", "testsuite"):
        file.write(ElementTree.tostring(Element(tag, attributes), encoding="unicode").removesuffix(" />") + ">\n")
    shutil.copyfileobj(cases, file)
    file.write("</testsuite>\n</testsuites>\n")


def safe(text: str) -> str:
    """The text as XML can hold it, cut to `LONGEST` characters."""
    if len(text) > LONGEST:
        ending = f"... ({len(text)} characters)"
        text = text[: LONGEST - len(ending)] + ending
    return NOT_XML.sub(REPLACEMENT, text)


def duration(seconds: float) -> float:
    """Seconds as a test view takes them: finite, not negative."""
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0
