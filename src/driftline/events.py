"""The events that the engine emits while it works: one hierarchy for checks, hunts, audits and diagnoses.

The engine produces no output. It calls a listener with events; progress displays are listeners (`report/progress.py`,
`report/hunt_progress.py`), and so may be any function of the user. An event says what happened, never how to show it. A
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
    """The base class of all events."""


# -- everywhere ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Working(Event):
    """The current activity. `part`: the step or the compiler; `words`: its progress."""

    part: str
    words: str


@dataclass(frozen=True)
class BugSeen(Event):
    """A bug was seen, for the first time (`new`) or again. `how`: how it came about, if its kind does not say so."""

    bug: Bug
    new: bool
    how: str = ""


@dataclass(frozen=True)
class StepsPlanned(Event):
    """The number of steps that will follow."""

    count: int


@dataclass(frozen=True)
class StepStarted(Event):
    """A step has begun."""

    name: str


@dataclass(frozen=True)
class StepDone(Event):
    """A step has ended, with its outcome in words."""

    name: str
    outcome: str


# -- check -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckStarted(Event):
    """The targets of a check are chosen."""

    targets: tuple[Target, ...]


@dataclass(frozen=True)
class TargetStarted(Event):
    """A target has begun. `expected`: the seconds that it usually takes, if that is long and known."""

    target: Target
    expected: float | None = None


@dataclass(frozen=True)
class TargetDone(Event):
    """A target has finished."""

    target: Target
    result: TargetResult | Skipped


# -- hunt ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HuntStarted(Event):
    """The lanes of a hunt are chosen. `resumed`: the number of turns done before."""

    targets: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    left_out: tuple[str, ...]  # generators that cannot be used, each with the reason
    seed: int
    seconds: float  # the budget; 0: none
    programs: int  # for each target; 0: no limit
    resumed: int
    spent: float  # seconds of the budget used already, by starting and before the hunt was resumed
    number: int = 0  # of the hunt in the store
    run: str = ""  # the hunt's name, which stays the same when stores are merged


@dataclass(frozen=True)
class TurnDone(Event):
    """A batch of programs was run on one target."""

    lane: str
    number: int
    counts: Mapping[str, int]
    seconds: float


@dataclass(frozen=True)
class LaneStopped(Event):
    """A target cannot continue; `reason` says why."""

    lane: str
    reason: str


@dataclass(frozen=True)
class GeneratorStopped(Event):
    """A generator makes no more programs for a target; `reason` says why. The other generators continue."""

    lane: str
    generator: str
    reason: str


# -- audit -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AuditStarted(Event):
    """An audit begins or resumes; `spent` of its `seconds` are used already. `number`: of the audit in the store."""

    number: int
    compilers: tuple[str, ...]
    seconds: float
    spent: float
    run: str = ""  # the audit's name, which stays the same when stores are merged


@dataclass(frozen=True)
class OutOfReach(Event):
    """A rule is wrong, but only on a program that ordinary code was not seen to contain."""

    rule: str
    mutation: str


# -- instabilities ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunPlanned(Event):
    """The number of pairs of a model and a framework to measure; `resumed` of them were measured before."""

    pairs: int
    resumed: int
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class ModelsMeasured(Event):
    """So many models were measured with a framework; `words` describe the results."""

    framework: str
    models: int
    words: str


# -- diagnose --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExplainingStarted(Event):
    """The explanation of several bugs, one after the other, begins. `seconds`: the time limit for all of them."""

    bugs: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Shrunk(Event):
    """A reduction found a smaller program after so many seconds and questions; `size` and `step` describe the program
    and the step in words."""

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
    """A bug could not be explained; `reason` says why."""

    bug: str
    reason: str


Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A listener that does nothing."""


def says(listener: Listener, part: str) -> Callable[[str], None]:
    """Return a function that sends its text to the listener as a `Working` event of `part`."""
    return lambda words: listener(Working(part, words))
