import math
import os
import stat
from xml.etree import ElementTree

import pytest

from evalframe.core.errors import LogUnavailable
from evalframe.reports.junit import LONGEST, SampleOutcome, write_junit

FOUR = [  # CLI-11
    SampleOutcome("ju.dev.0", "correct", 0.25),
    SampleOutcome("ju.dev.1", "incorrect", 0.5, expected="2", answer="no ]]> \x00\x08 <b>&\ud800\x1b[31m"),
    SampleOutcome("ju.dev.2", "error", 1.0, message="CallFailed: HTTP 500"),
    SampleOutcome("ju.dev.3", "unscored", 0.25, message="no verdict"),
]


@pytest.fixture
def written(tmp_path):
    def write(samples, **options):
        write_junit(iter(samples), tmp_path / "out.xml", **options)
        return ElementTree.fromstring((tmp_path / "out.xml").read_bytes())

    return write


def test_each_sample_is_a_test_case(written):
    root = written(FOUR, name="ju.dev.v0")
    suite = root.find("testsuite")
    for element in (root, suite):
        assert element.attrib == {"name": "ju.dev.v0", "tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "2.000"}
    cases = suite.findall("testcase")
    assert [(case.get("classname"), case.get("name"), case.get("time")) for case in cases] == [
        ("ju.dev.v0", "ju.dev.0", "0.250"),
        ("ju.dev.v0", "ju.dev.1", "0.500"),
        ("ju.dev.v0", "ju.dev.2", "1.000"),
        ("ju.dev.v0", "ju.dev.3", "0.250"),
    ]
    assert [[part.tag for part in case] for case in cases] == [[], ["failure"], ["error"], ["skipped"]]
    assert cases[2].find("error").get("message") == "CallFailed: HTTP 500"
    assert cases[3].find("skipped").get("message") == "no verdict"


def test_whatever_a_model_wrote_is_told(written):
    failure = written(FOUR).find(".//failure")
    assert failure.get("message") == "wrong answer"
    assert failure.text == "expected: 2\nanswer: no ]]> \ufffd\ufffd <b>&\ufffd\ufffd[31m"


@pytest.mark.parametrize("text", ["".join(map(chr, range(0x100))), "\ufffe\uffff\ufdd0", "]]>", "😀ä\u2028", "\udc80" * 10, "\"<&>'"])
def test_the_file_is_valid_everywhere(written, text):
    root = written([SampleOutcome(text, "incorrect", message=text, expected=text, answer=text)], name=text)
    assert root.get("tests") == "1"


def test_each_text_is_cut(written):
    text = "<" * 1_000_000
    failure = written([SampleOutcome("a", "incorrect", message=text, expected=text, answer=text)]).find(".//failure")
    assert len(failure.get("message")) == LONGEST
    assert failure.get("message").endswith("... (1000000 characters)")
    assert len(failure.text) == 2 * LONGEST + len("expected: \nanswer: ")


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0])
def test_odd_times_count_as_none(written, seconds):
    root = written([SampleOutcome("a", "correct", seconds)])
    assert root.get("time") == root.find(".//testcase").get("time") == "0.000"


def test_a_run_without_samples_is_a_valid_file(written):
    assert written([]).get("tests") == "0"


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    def samples():
        yield FOUR[0]
        raise RuntimeError("killed")

    (tmp_path / "out.xml").write_bytes(b"before")
    with pytest.raises(RuntimeError):
        write_junit(samples(), tmp_path / "out.xml")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out.xml", b"before")]


def test_a_new_file_has_the_usual_permissions_and_its_folder_is_made(tmp_path):
    before = os.umask(0o022)
    try:
        write_junit(FOUR, str(tmp_path / "new" / "out.xml"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new" / "out.xml").stat().st_mode) == 0o644


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path):
    reader, writer = os.pipe()
    write_junit(FOUR, f"/dev/fd/{writer}")
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert ElementTree.fromstring(file.read()).get("tests") == "4"


def test_a_file_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LogUnavailable, match=r"cannot write the JUnit file .*out\.xml.*--junit"):
        write_junit(FOUR, tmp_path / "file" / "out.xml")
