"""Limits on what a hunt may spend on a model. Answers that come from the store count like paid ones, so that a hunt
that is resumed or repeated stops at the same point."""

from __future__ import annotations

from dataclasses import dataclass

from driftline.core.config import user_settings_file
from driftline.core.errors import DriftlineError
from driftline.llm.settings import LlmSettings

TOKENS = 200_000  # the default


@dataclass(frozen=True)
class Allowance:
    """Limits on tokens and money; `None` is unlimited."""

    tokens: int | None = None
    cost: float | None = None

    def share(self, parts: int) -> Allowance:
        """Return the allowance of one of `parts` equal shares. Each lane (the programs for one target) has its own, so
        that its spending does not depend on the speed of others."""
        parts = max(1, parts)
        return Allowance(
            None if self.tokens is None else self.tokens // parts, None if self.cost is None else self.cost / parts
        )

    def left(self, tokens: int, cost: float) -> bool:
        """True if another request may be sent after spending `tokens` and `cost`."""
        return (self.tokens is None or tokens < self.tokens) and (self.cost is None or cost < self.cost)

    @staticmethod
    def of(settings: LlmSettings, tokens: int | None, cost: float | None) -> Allowance:
        """Return the allowance that the user set. Raises if `cost` is given and the settings have no prices."""
        if cost is not None and not settings.priced:
            raise DriftlineError(
                "--llm-cost needs to know what tokens cost: set price_in and price_out, each for a million tokens,"
                f" below [llm] in {user_settings_file()}."
            )
        return Allowance(TOKENS if tokens is None else tokens, cost)

    def words(self) -> str:
        limits = [f"{self.tokens:,} tokens"] if self.tokens is not None else []
        return " or ".join([*limits, *([f"{self.cost:g} of cost"] if self.cost is not None else [])])


def stored_allowance(tokens: int | None, cost: float | None) -> Allowance:
    """Return the allowance of a stored hunt. Raises if it exceeds the default: the store may come from someone else, so
    the user has to confirm a larger one."""
    if tokens is None or tokens > TOKENS:
        words = "any number of" if tokens is None else f"{tokens:,}"
        raise DriftlineError(
            f"The hunt was allowed {words} tokens, which is more than the {TOKENS:,} of a new hunt. Say how many it may"
            " spend now, with --llm-tokens."
        )
    return Allowance(tokens, cost)
