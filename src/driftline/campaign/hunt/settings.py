"""The settings of a hunt, shared by the command, the web page and the workbench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from driftline.campaign.hunt.plan import HuntPlan, choose_lanes, resumed_plan
from driftline.campaign.hunt.shard import Shard
from driftline.campaign.hunt.varied import check_settings_way, vary_settings
from driftline.checking.accept import parse_accept
from driftline.checking.checker import Skipped
from driftline.core.errors import DriftlineError
from driftline.core.registry import Registry
from driftline.core.target import Target, parse_targets
from driftline.generate import GENERATORS, usual_generators
from driftline.inputs.strategies import INPUTS
from driftline.store import Store
from driftline.store.hunts import Hunt


class HuntKeywords(TypedDict, total=False):
    """The settings of a hunt as keyword arguments of `Workbench.hunt`; the fields of `HuntSettings`."""

    seconds: float | None
    programs: int
    least: int
    targets: Sequence[str] | None
    generators: Sequence[str] | None
    inputs: Sequence[str]
    seed: int
    settings: str
    timeout: float
    accept: Sequence[str]
    resume: bool
    number: int
    diagnose: bool
    llm: Mapping[str, Any] | None
    llm_tokens: int | None
    llm_cost: float | None
    llm_replay: bool
    shard: str
    cluster: str


@dataclass(frozen=True)
class PlannedHunt:
    """A hunt that can begin: its plan, the interrupted hunt that it resumes (if any), and the skipped targets."""

    plan: HuntPlan
    going: Hunt | None = None
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True)
class HuntSettings:
    """The settings of a hunt. Contradictory settings raise DriftlineError when the object is made."""

    seconds: float | None = None  # None: ten minutes, or as long as `programs` take
    programs: int = 0  # for each target, instead of a time
    least: int = 0  # judged programs of each target; the hunt takes up to twice the time until there are so many
    targets: Sequence[str] | None = None  # None: each available compiler
    generators: Sequence[str] | None = None  # None: all but `llm`
    inputs: Sequence[str] = HuntPlan.inputs
    seed: int = 0
    settings: str = ""  # "vary" or "loops": also hunt each compiler with other settings, drawn by the seed
    timeout: float = 60.0  # seconds for one program
    accept: Sequence[str] = ()  # accepted arithmetic, as for `check`; "reduced-precision" is all of it
    resume: bool = False  # resume the last interrupted hunt
    number: int = 0  # of the hunt that is resumed; 0: the last one
    diagnose: bool = False  # explain every new bug afterwards
    llm: Mapping[str, Any] | None = None  # settings of the language model, as in the section [llm] of a settings file
    llm_tokens: int | None = None  # at most; None: 200,000
    llm_cost: float | None = None  # at most
    llm_replay: bool = False  # take the answers of the language model from the store
    shard: str = ""  # one of several parts, such as "3/8"; no program is in two of them
    cluster: str = ""  # where programs run: the address of a Ray cluster, or "local:2"

    def __post_init__(self) -> None:
        if self.seconds is not None and self.programs:
            raise DriftlineError("Give seconds or programs to a hunt, not both.")
        if self.resume and (self.targets is not None or self.generators is not None or self.shard or self.settings):
            raise DriftlineError("A resumed hunt has its targets, settings, generators and shard; do not give others.")

    def planned(self, store: Store, plugins: tuple[str, ...]) -> PlannedHunt:
        """Return the plan of a new hunt, or of the rest of a resumed one. Raises DriftlineError for unknown names."""
        if self.resume:
            going, plan = resumed_plan(store, seconds=self.seconds or 0.0, programs=self.programs, number=self.number)
            return PlannedHunt(plan, going)
        targets = None if self.targets is None else [one for text in self.targets for one in parse_targets(text)]
        drawn: list[Skipped] = []
        if self.settings:
            check_settings_way(self.settings)
            targets, drawn = vary_settings(targets, self.seed, way=self.settings)
        chosen, skipped = choose_lanes(targets)
        return PlannedHunt(self._new_plan(chosen, plugins), skipped=(*drawn, *skipped))

    def _new_plan(self, targets: Sequence[Target], plugins: tuple[str, ...]) -> HuntPlan:
        usual = 0.0 if self.programs else HuntPlan.seconds
        return HuntPlan(
            targets=tuple(str(target) for target in targets),
            generators=_known(usual_generators() if self.generators is None else self.generators, GENERATORS),
            inputs=_known(self.inputs, INPUTS),
            seed=self.seed,
            seconds=usual if self.seconds is None else self.seconds,
            programs=self.programs,
            timeout=self.timeout,
            plugins=tuple(str(Path(path).resolve()) for path in plugins),
            accept=parse_accept(self.accept),
            shard=str(Shard.parse(self.shard)),
            least=self.least,
        )


def _known(names: Sequence[str], registry: Registry[Any]) -> tuple[str, ...]:
    if not names:
        raise DriftlineError("An empty list was given; leave the option out to use all.")
    for name in names:
        registry.get(name)
    return tuple(names)
