"""How much a hunt may spend on a model. What is spent is counted by what was used, whether it was paid for today or
comes from the store: so a hunt that is resumed or repeated ends its spending at the same place."""

from __future__ import annotations

from dataclasses import dataclass

from driftline.core.config import user_settings_file
from driftline.core.errors import DriftlineError
from driftline.llm.settings import LlmSettings

TOKENS = 200_000  # unless told otherwise


@dataclass(frozen=True)
class Allowance:
    """Limits on tokens and money; `None`: no limit."""

    tokens: int | None = None
    cost: float | None = None

    def share(self, parts: int) -> Allowance:
        """One of so many equal parts: each lane has its own, as what one spends must not depend on how fast others
        are."""
        parts = max(1, parts)
        return Allowance(
            None if self.tokens is None else self.tokens // parts, None if self.cost is None else self.cost / parts
        )

    def left(self, tokens: int, cost: float) -> bool:
        """May another request be sent after so much was spent?"""
        return (self.tokens is None or tokens < self.tokens) and (self.cost is None or cost < self.cost)

    @staticmethod
    def of(settings: LlmSettings, tokens: int | None, cost: float | None) -> Allowance:
        """What the user allows; money is counted by the prices of the settings."""
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
    """Return what a stored hunt was allowed. More than a new hunt may spend has to be said again by the user: somebody
    else may have written the store."""
    if tokens is None or tokens > TOKENS:
        words = "any number of" if tokens is None else f"{tokens:,}"
        raise DriftlineError(
            f"The hunt was allowed {words} tokens, which is more than the {TOKENS:,} of a new hunt. Say how many it may"
            " spend now, with --llm-tokens."
        )
    return Allowance(tokens, cost)
