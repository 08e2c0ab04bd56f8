import io

import pytest

from evalframe.core.errors import BadSetting
from evalframe.core.tally import SampleCounts
from evalframe.runs.progress import Bar, Lines, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("show", "stream", "kind"), [
    ("auto", Terminal(), Bar), ("auto", io.StringIO(), Lines), ("1", io.StringIO(), Lines), ("true", Terminal(), Bar),
    ("0", Terminal(), type(None)), ("false", io.StringIO(), type(None)), ("no", Terminal(), type(None)),
])  # fmt: skip
def test_who_shows_progress_depends_on_who_watches(show, stream, kind):
    assert type(progress(show, stream)) is kind


def test_another_word_is_told():
    with pytest.raises(BadSetting, match="auto, true or false"):
        progress("sometimes")


def test_lines_hold_no_control_codes_and_are_few():
    stream = io.StringIO()
    shown = progress("1", stream)
    shown.begin(1000)
    for number in range(1000):
        shown.ended(SampleCounts(total=1000, completed=number, error=1))
    shown.finish()
    assert stream.getvalue() == "1000 of 1000 samples done, 1 of them in error\n"


def test_a_bar_counts_what_has_ended():
    stream = Terminal()
    shown = progress("1", stream)
    shown.begin(2)
    shown.ended(SampleCounts(total=2, completed=1))
    shown.ended(SampleCounts(total=2, completed=1, error=1))
    shown.finish()
    assert "2/2" in stream.getvalue()
    assert "errors: 1" in stream.getvalue()


def test_a_run_that_was_stopped_before_any_sample_ended_says_of_how_many():
    stream = io.StringIO()
    shown = progress("1", stream)
    shown.begin(50)
    shown.finish()
    assert stream.getvalue() == "0 of 50 samples done\n"
