"""What a hunt says while it runs. The engine knows no output: every renderer is a function of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from driftline.checking.checker import Skipped
from driftline.store import Bug


@dataclass(frozen=True)
class Started:
    """The lanes are chosen. `resumed` is the number of turns that were done before."""

    targets: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    left_out: tuple[str, ...]  # generators that lack something, each with a sentence's worth of why
    seconds: float  # the budget; 0: none
    programs: int  # for each target; 0: no limit
    resumed: int
    spent: float  # seconds, before it was resumed


@dataclass(frozen=True)
class TurnDone:
    """A batch of programs has been through one target."""

    lane: str
    number: int
    counts: Mapping[str, int]
    seconds: float


@dataclass(frozen=True)
class BugSeen:
    """A suspect was examined and is a bug: a new one, or one more sighting."""

    bug: Bug
    new: bool


@dataclass(frozen=True)
class LaneStopped:
    """A target can go on no longer, and why."""

    lane: str
    reason: str


Event = Started | TurnDone | BugSeen | LaneStopped
Listener = Callable[[Event], None]
