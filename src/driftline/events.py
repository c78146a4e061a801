"""What the engine says while it works: one hierarchy of events for checks, hunts, audits and diagnoses.

The engine knows no output. It calls a listener with events; progress displays are listeners (`report/progress.py`,
`report/hunt_progress.py`), and so is any function of yours. An event says what happened, never how to show it. A
listener may be called from several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from driftline.checking.checker import Skipped, TargetResult
from driftline.core.target import Target
from driftline.store import Bug


@dataclass(frozen=True)
class Event:
    """The base of all."""


# -- everywhere ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Working(Event):
    """What is being done at the moment: `part` names the step or the compiler, `words` say how far it is."""

    part: str
    words: str


@dataclass(frozen=True)
class BugSeen(Event):
    """A bug: a new one, or one more sighting. `how` says what brought it about, where that is more than its kind."""

    bug: Bug
    new: bool
    how: str = ""


@dataclass(frozen=True)
class StepsPlanned(Event):
    """So many steps are to come."""

    count: int


@dataclass(frozen=True)
class StepStarted(Event):
    """A step begins."""

    name: str


@dataclass(frozen=True)
class StepDone(Event):
    """A step has come to its end, with this outcome in words."""

    name: str
    outcome: str


# -- check -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckStarted(Event):
    """The targets of a check are chosen."""

    targets: tuple[Target, ...]


@dataclass(frozen=True)
class TargetStarted(Event):
    """A target begins; `expected` is how many seconds it usually takes, where that is long and known."""

    target: Target
    expected: float | None = None


@dataclass(frozen=True)
class TargetDone(Event):
    """A target has come to its result."""

    target: Target
    result: TargetResult | Skipped


# -- hunt ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HuntStarted(Event):
    """The lanes are chosen. `resumed` is the number of turns that were done before."""

    targets: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    left_out: tuple[str, ...]  # generators that lack something, each with a sentence's worth of why
    seed: int
    seconds: float  # the budget; 0: none
    programs: int  # for each target; 0: no limit
    resumed: int
    spent: float  # seconds of the budget: starting, and what was done before it was resumed
    number: int = 0  # of the hunt in the store
    run: str = ""  # its name, which stays when stores are merged


@dataclass(frozen=True)
class TurnDone(Event):
    """A batch of programs has been through one target."""

    lane: str
    number: int
    counts: Mapping[str, int]
    seconds: float


@dataclass(frozen=True)
class LaneStopped(Event):
    """A target can go on no longer, and why."""

    lane: str
    reason: str


@dataclass(frozen=True)
class GeneratorStopped(Event):
    """A generator makes no more programs for a target, and why; the others go on."""

    lane: str
    generator: str
    reason: str


# -- audit -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AuditStarted(Event):
    """The audit of this number in the store begins, or goes on: `spent` of its `seconds` are gone."""

    number: int
    compilers: tuple[str, ...]
    seconds: float
    spent: float
    run: str = ""  # its name, which stays when stores are merged


@dataclass(frozen=True)
class OutOfReach(Event):
    """A rule is wrong, but only on a program that ordinary code has not been seen to write."""

    rule: str
    mutation: str


# -- instabilities ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunPlanned(Event):
    """So many pairs of a model and a framework are to be measured; `resumed` were measured before."""

    pairs: int
    resumed: int
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class ModelsMeasured(Event):
    """So many models went through a framework; `words` say what came out."""

    framework: str
    models: int
    words: str


# -- diagnose --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExplainingStarted(Event):
    """Several bugs will be explained, one after the other, in this many seconds at most."""

    bugs: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Shrunk(Event):
    """A reduction came to a smaller program, after so many seconds and questions; its size and the step in words."""

    seconds: float
    queries: int
    size: str
    step: str


@dataclass(frozen=True)
class ReleaseAsked(Event):
    """A bisection ran the case in one release, which is good, bad or skipped."""

    release: str
    answer: str
    seconds: float


@dataclass(frozen=True)
class NotExplained(Event):
    """A bug could not be explained, and why."""

    bug: str
    reason: str


Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A listener for where no events are wanted."""


def says(listener: Listener, part: str) -> Callable[[str], None]:
    """For a search that knows only words: they become what `part` is working on."""
    return lambda words: listener(Working(part, words))
