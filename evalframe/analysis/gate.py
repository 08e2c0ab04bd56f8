"""
Does a report meet what was asked of it? A plain threshold for each metric; comparison with a baseline comes beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evalframe.core.errors import BadSetting


def read_minimums(rules: Sequence[str]) -> dict[str, float]:
    """
    Thresholds from "metric=number".

    Raises:
        BadSetting: If one is not spelt so.
    """
    minimums = {}
    for rule in rules:
        metric, _, text = rule.partition("=")
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not metric or not math.isfinite(number):
            raise BadSetting(f'--min takes METRIC=NUMBER, such as accuracy=0.8, not "{rule}".')
        minimums[metric] = number
    return minimums


def below_minimum(report: Mapping[str, Any], minimums: Mapping[str, float]) -> list[str]:
    """One sentence for each threshold that the report does not meet; a metric that is not there, or is none, meets none."""
    failures = []
    for metric, least in minimums.items():
        value = report.get(metric)
        if not isinstance(value, int | float) or isinstance(value, bool):
            known = ", ".join(key for key, other in report.items() if isinstance(other, int | float))
            failures.append(f"{metric} must be {least:g} at least, but the report has no such number (it has: {known or 'none'}).")
        elif value < least:
            failures.append(f"{metric} must be {least:g} at least, but is {value:.4g}.")
    return failures
