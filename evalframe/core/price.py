"""
What a model costs: US dollars for a million tokens, and what tokens spent come to.

Covers: input, input from the endpoint's cache, output (reasoning is output). Does not cover: dearer long prompts, cheaper batches, fees
for writing a cache, for tools, images or sound; where an endpoint bills those, the true bill is higher or lower.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from evalframe.core.completion import Usage

TOKENS = 1_000_000
"""How many tokens a price is for."""


@dataclass(frozen=True, slots=True)
class Price:
    """
    What a model costs, in US dollars per million tokens.

    Args:
        input_usd: Tokens of the prompt.
        output_usd: Tokens of the answer, reasoning among them.
        cached_usd: Tokens of the prompt that came from the endpoint's cache; None where they cost like all others.
        source: Where the price was read.
        date: When: ISO 8601, such as "2026-11-05".
    """

    input_usd: float
    output_usd: float
    cached_usd: float | None = None
    source: str = ""
    date: str = ""

    @property
    def is_free(self) -> bool:
        """Whether nothing costs anything."""
        return not (self.input_usd or self.output_usd or self.cached_usd)

    def cost_usd(self, usage: Usage) -> float | None:
        """
        What tokens cost.

        Args:
            usage: Where only a part of it is known, the cost is of that part.

        Returns:
            US dollars; None where the endpoint told no tokens at all, unless they cost nothing.
        """
        if self.is_free or usage.calls == 0:
            return 0.0
        if usage.input_tokens is None and usage.cached_tokens is None and usage.output_tokens is None:
            return None
        cached = usage.cached_tokens or 0
        fresh = max((usage.input_tokens or 0) - cached, 0)
        cached_usd = self.input_usd if self.cached_usd is None else self.cached_usd
        return (fresh * self.input_usd + cached * cached_usd + (usage.output_tokens or 0) * self.output_usd) / TOKENS

    def __str__(self) -> str:
        if self.is_free:
            return "free"
        cached = "" if self.cached_usd is None else f"${self.cached_usd:g} cached, "
        return f"${self.input_usd:g} in, {cached}${self.output_usd:g} out per million tokens"


Prices: TypeAlias = Callable[[str], Price | None]
"""What the model of a name costs; None where nobody knows."""
