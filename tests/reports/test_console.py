import pytest

from evalframe.reports.console import harmless, report_text, table
from evalframe.reports.numbers import number, rows, tokens

REPORT = {
    "accuracy": 0.56666, "boostrap_std": 0.06, "accuracy_stderr": 0.09, "accuracy_ci95": [0.39, 0.73], "n": 30, "f1_score": 0.5, "f1_score_n": 29,
    "usage": {"m": {"input_tokens": 1204, "output_tokens": 3, "cached_tokens": None, "unknown": 1, "calls": 30}},
}  # fmt: skip


def test_a_row_holds_a_metric_and_what_it_rests_on():
    found = {row.metric: row for row in rows(REPORT)}
    assert list(found) == ["accuracy", "f1_score"]
    assert (found["accuracy"].value, found["accuracy"].error, found["accuracy"].interval, found["accuracy"].n) == (
        "0.5667", "0.0900", "0.3900 to 0.7300", "30",
    )  # fmt: skip
    assert found["f1_score"].n == "29"


@pytest.mark.parametrize(
    ("value", "text"), [(None, "none"), (True, "true"), (12345, "12,345"), (0.5, "0.5000"), (1234567.891, "1,234,567.9"), ("x", "x")]
)
def test_a_number_is_shown_like_a_printed_table(value, text):
    assert number(value) == text


def test_tokens_that_are_partly_unknown_say_so():
    assert tokens(REPORT["usage"]) == ["m: 1,204 in, 3 out, unknown for 1 of 30 calls"]
    assert tokens({"": {"unknown": 2, "calls": 2}}) == ["a model without a name: unknown for 2 of 2 calls"]


@pytest.mark.parametrize(("text", "shown"), [
    ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"), ("bell\x07", "bell\\x07"), ("a\nb\tc", "a\nb\tc"), ("\u202egnp", "\\u202egnp"),
    ("\r over", "\\r over"), ("\ud800", "\\ud800"), ("日本語 é", "日本語 é"), ("\x9b1m", "\\x9b1m"),
])  # fmt: skip
def test_no_text_can_drive_a_terminal(text, shown):
    assert harmless(text) == shown


def test_columns_stand_in_line_and_empty_ones_are_left_out():
    assert table([("a", "b", "c"), ("xxx", "", "1"), ("y", "", "22")]) == "a     c\nxxx   1\ny    22"


def test_a_report_tells_samples_status_and_log():
    text = report_text(
        "e with m", REPORT, {"total": 31, "completed": 30, "error": 1, "unscored": 0}, log_path="/x/log.jsonl", status="error", reason="why\x07",
        seconds=2.34,
    )  # fmt: skip
    assert "samples  31 in all, 30 completed, 1 in error in 2.3 s" in text
    assert "status   error: why\\x07" in text
    assert text.endswith("log      /x/log.jsonl")


def test_a_report_without_metrics_is_no_error():
    assert "0 completed" in report_text("e", {}, {"total": 0}, log_path=None, status="error")
