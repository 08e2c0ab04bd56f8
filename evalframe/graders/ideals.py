"""
The right answers of a sample, as text graders use them.
"""

from __future__ import annotations

from evalframe.core.sample import Sample

NO_IDEAL = "the sample has no ideal answer that is not empty"


def texts(sample: Sample) -> list[str]:
    """The ideals as text, outer white space removed, without those that are empty: an empty one would match whatever was said."""
    spelt = (ideal if isinstance(ideal, str) else str(ideal) for ideal in sample.ideals if ideal is not None)
    return [text for text in (ideal.strip() for ideal in spelt) if text]
