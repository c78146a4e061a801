"""What one of the measures of trust counted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tally:
    """How many things were tried, how many were good, and what else is to be said of them."""

    what: str
    tried: int
    good: int
    told: str
    sound: bool  # nothing that must not be
