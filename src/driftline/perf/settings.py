"""The settings of `driftline perf`: for timing one program, and for a hunt for slow programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean
from driftline.inputs.sizes import Sizes
from driftline.perf.check import EAGER, PerfOptions, parse_against
from driftline.perf.comparison import LIMIT, Effort
from driftline.perf.growth import EXPONENT, GrowthEffort, sizes_to
from driftline.perf.twins import MADE_TWINS


class PerfKeywords(TypedDict, total=False):
    """The fields of `PerfSettings` as keyword arguments."""

    targets: Sequence[str]
    against: Sequence[str]
    twin: str | None
    ratio: float
    repeat: int
    growth: bool
    nodes: int
    exponent: float
    seconds: float
    dims: Mapping[str, int | Sequence[int]] | None
    shapes: Mapping[str, Sequence[int] | Sequence[Sequence[int]]] | None
    timeout: float
    seed: int


@dataclass(frozen=True)
class PerfSettings:
    """The settings for timing one program. Contradictory settings raise when an instance is made."""

    targets: Sequence[str]
    against: Sequence[str] = ()  # "eager", "plain" (the target's own unoptimised mode) or other targets
    twin: str | None = (
        None  # a program of the same meaning on the same target, or "layout" or "dtype", of which one is made
    )
    ratio: float = LIMIT  # how many times slower is a finding
    repeat: int = 20  # rounds
    growth: bool = False  # also repeat the program to `nodes` operators
    nodes: int = 320
    exponent: float = EXPONENT  # of the growth that is a finding
    seconds: float = 30.0  # after so many no further round is begun
    dims: Mapping[str, int | Sequence[int]] | None = None  # as for `check`
    shapes: Mapping[str, Sequence[int] | Sequence[Sequence[int]]] | None = None
    timeout: float = 900.0  # seconds for one target
    seed: int = 0

    def __post_init__(self) -> None:
        if self.twin and self.against:
            raise DriftlineError("A twin is timed on the same target; leave out what to compare against.")
        if self.twin and self.twin not in MADE_TWINS and self.twin.isidentifier():
            near = did_you_mean(self.twin, MADE_TWINS)
            raise DriftlineError(f"There is no twin {self.twin!r}; give layout, dtype or a program.{near}")

    @property
    def sizes(self) -> Sizes:
        return Sizes.of(self.dims or {}, self.shapes or {})

    @property
    def twin_program(self) -> str:
        """The given twin program; empty if there is none, or if the twin is made by Driftline."""
        return "" if not self.twin or self.twin in MADE_TWINS else self.twin

    def checks(self, plugins: tuple[str, ...]) -> CheckOptions:
        return CheckOptions(seed=self.seed, timeout=self.timeout, plugins=plugins)

    def options(self) -> PerfOptions:
        baselines = tuple(one for text in self.against for one in parse_against(text))
        if self.twin in MADE_TWINS:
            baselines = (self.twin,)
        grown = GrowthEffort(sizes_to(self.nodes), seconds=self.seconds, timeout=self.timeout) if self.growth else None
        effort = Effort(self.repeat, self.seconds, self.timeout)
        return PerfOptions(baselines, self.ratio, effort, grown, self.exponent)


class PerfHuntKeywords(TypedDict, total=False):
    """The fields of `PerfHuntSettings` as keyword arguments."""

    seconds: float | None
    programs: int
    targets: Sequence[str] | None
    against: str
    ratio: float
    seed: int
    resume: bool


@dataclass(frozen=True)
class PerfHuntSettings:
    """The settings of a hunt for slow programs."""

    seconds: float | None = None  # None: ten minutes
    programs: int = 0  # at most; 0: as many as the time allows
    targets: Sequence[str] | None = None  # None: inductor and onnxruntime
    against: str = EAGER  # one baseline: "eager", "plain", a twin or a target
    ratio: float = LIMIT
    seed: int = 0
    resume: bool = False  # resume the last interrupted hunt

    def __post_init__(self) -> None:
        if self.resume and self.targets is not None:
            raise DriftlineError("A resumed hunt has its targets; do not give others.")

    def baseline(self) -> str:
        baselines = parse_against(self.against)
        if len(baselines) > 1:
            raise DriftlineError("A hunt holds targets against one baseline; give one.")
        return baselines[0]
