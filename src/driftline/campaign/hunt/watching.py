"""Watches a compiler: on its newest release, which known bugs are fixed, which are back, and which are new.

Every known bug of the compiler is replayed on the release. The outcome is stored with the bug (the step `watch` of its
diagnoses) for comparison in the next round. A bug that the hunt meets again is not fixed, even if its replayed case
passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from driftline.backends import BACKENDS
from driftline.campaign.explain.replay import replay
from driftline.campaign.hunt.result import HuntResult
from driftline.checking.checker import Checker
from driftline.checking.result import ReplayAnswer, Standing
from driftline.core.announce import Announce
from driftline.core.errors import BackendUnavailable, DriftlineError
from driftline.core.program import SCHEDULE, SCRIPT
from driftline.core.target import Target
from driftline.core.text import did_you_mean
from driftline.core.verdict import COSTS, Status
from driftline.execute.environments import add_environment
from driftline.execute.releases import newest_release, public
from driftline.report.titles import title_of
from driftline.scenarios.replay import replay_script
from driftline.scenarios.target import AS_IT_STANDS
from driftline.schedules.replay import answer_of, perform_again
from driftline.store import Bug, Store, sound_bugs
from driftline.store.diagnoses import Diagnoses
from driftline.store.store import now

STEP = "watch"
KEPT_ROUNDS = 100  # stored rounds of one bug


@dataclass(frozen=True)
class WatchedBug:
    """A bug and its standing in one round."""

    bug: Bug
    target: str
    standing: Standing
    reason: str = ""

    @property
    def what(self) -> str:
        """The failure in words that stay the same from round to round, while values differ between programs."""
        return title_of(self.bug)


@dataclass
class WatchResult:
    """One round of watching: the release of each compiler, the standing of each bug, and the hunt."""

    releases: dict[str, str] = field(default_factory=dict)  # by compiler
    bugs: list[WatchedBug] = field(default_factory=list)
    hunt: HuntResult | None = None
    not_hunted: str = ""  # why there was no hunt although one was asked for

    def those(self, standing: Standing) -> list[WatchedBug]:
        return [one for one in self.bugs if one.standing is standing]

    @property
    def compared(self) -> bool:
        """True if any bug or program came to a verdict."""
        judged = any(one.standing is not Standing.UNCLEAR for one in self.bugs)
        return judged or bool(self.hunt and (self.hunt.judged or self.hunt.bugs))

    def to_json(self) -> dict[str, Any]:
        return {
            "releases": self.releases,
            "programs": self.hunt.programs if self.hunt else {},
            "not_hunted": self.not_hunted,
            **{str(standing).replace(" ", "_"): self._listed(standing) for standing in Standing},
        }

    def _listed(self, standing: Standing) -> list[dict[str, Any]]:
        return [
            {
                "bug": one.bug.id,
                "target": one.target,
                "fingerprint": one.bug.fingerprint.to_json(),
                "summary": one.bug.summary,
                "reason": one.reason,
            }
            for one in self.those(standing)
        ]


class WatchKeywords(TypedDict, total=False):
    """The settings of a round of watching as keyword arguments; the fields of `WatchSettings`."""

    release: str
    pre: bool
    installed: bool
    seconds: float
    programs: int
    seed: int
    accept: Sequence[str]


@dataclass(frozen=True)
class WatchSettings:
    """The settings of a round of watching: which release, and how long to hunt on it."""

    release: str = ""  # empty: the newest release in the package index
    pre: bool = True  # also pre-releases
    installed: bool = False  # use the release that is installed here
    seconds: float = 3600.0  # of the hunt; 0: no hunt
    programs: int = 0  # of the hunt for each compiler, instead of a time
    seed: int = 0
    accept: Sequence[str] = ()  # policies of less precise arithmetic that are no finding


def watched_targets(compilers: Sequence[str], asked: WatchSettings, report: Announce) -> dict[str, Target]:
    """Return the newest release of each compiler as a target, in its own environment unless that release is installed
    here."""
    found = {}
    for name in compilers:
        backend = BACKENDS.get(name)
        if asked.installed:
            here = backend.installed()
            if not here.available:
                raise BackendUnavailable(f"{name} is not available here: {here.reason}; {backend.install_command}.")
            found[name] = Target(name)
            continue
        if not backend.packages:
            raise DriftlineError(f"{name} has no package of its own; with --installed it is watched as it is here.")
        wanted = asked.release or newest_release(backend.packages[0], pre=asked.pre)
        if wanted == public(backend.version()):
            found[name] = Target(name)
        else:
            report(f"{name}: {backend.packages[0]}=={wanted}")
            found[name] = Target(name, add_environment(f"{backend.packages[0]}=={wanted}", report=report).version)
    return found


def release_of(target: Target) -> str:
    return target.version or BACKENDS.get(target.backend).version()


@dataclass(frozen=True)
class _Replayed:
    """A bug, whether it failed before this round, and whether it fails now; `fails` is None if that is unclear."""

    bug: Bug
    target: Target
    failed: bool
    fails: bool | None
    reason: str


# Measures a cost bug again (`perf/`): the answer, and why.
CostMeasurement = Callable[[Bug, Target], tuple[ReplayAnswer, str]]


def replay_all(
    store: Store, checker: Checker, targets: Mapping[str, Target], measure: CostMeasurement, report: Announce
) -> Iterator[_Replayed]:
    """Replay every known bug of these compilers on the given releases, as `driftline replay` does."""
    names = [bug.id for bug in sound_bugs(store) if _compiler_of(bug) in targets]
    for number, bug in enumerate(sound_bugs(store, names), start=1):
        own = Target.parse(bug.findings[0].target)
        target = replace(own, version=targets[_compiler_of(bug)].version)
        report(f"{number} of {len(names)}: {bug.id}")
        fails: bool | None = None
        try:
            answer, reason = _again(store, bug, checker, target, measure)
            if answer is ReplayAnswer.STILL_FAILS:
                fails = True
            elif answer is not ReplayAnswer.DIFFERS and bug.status is not Status.FLAKY:
                fails = False
        except DriftlineError as error:
            reason = str(error)
        yield _Replayed(bug, target, _failed_before(store, bug), fails, reason)


def _compiler_of(bug: Bug) -> str:
    """Return the backend on whose releases a bug is replayed; for a script with its own backend, that backend."""
    own = Target.parse(bug.findings[0].target).backend
    return bug.fingerprint.backend if own == AS_IT_STANDS else own


def _again(
    store: Store, bug: Bug, checker: Checker, target: Target, measure: CostMeasurement
) -> tuple[ReplayAnswer, str]:
    if bug.fingerprint.kind in COSTS:
        return measure(bug, target)
    form = store.load_case(bug.findings[0].case_id).program.form
    if form == SCHEDULE:
        return answer_of(bug, perform_again(store, bug, checker.pool, target))
    if form == SCRIPT:
        script = replay_script(store, bug, checker.pool, target)
        return script.answer, script.reason
    found = replay(store, bug.id, checker, target)
    return found.answer, found.reason


def _failed_before(store: Store, bug: Bug) -> bool:
    rounds = _rounds(store, bug)
    return bool(rounds[-1].get("fails")) if rounds else bug.status is not Status.FIXED


def _rounds(store: Store, bug: Bug) -> list[dict[str, Any]]:
    """Return the stored rounds of a bug, without damaged entries."""
    kept = (Diagnoses(store).of(bug.id, STEP) or {}).get("rounds")
    return [one for one in kept if isinstance(one, dict)] if isinstance(kept, list) else []


def settle(store: Store, replayed: Sequence[_Replayed], hunt: HuntResult | None) -> list[WatchedBug]:
    """Return the standing of every bug in this round, and store the outcome for the next round."""
    met = hunt.bugs if hunt else {}
    fresh = set(hunt.new) if hunt else set()
    told = []
    for one in replayed:
        fails, reason = one.fails, one.reason
        if not fails and one.bug.id in met:
            replay_said = "passes" if fails is False else f"is unclear ({reason})"
            fails, reason = True, f"the case that was replayed {replay_said}, and the hunt met it in another program"
        told.append(WatchedBug(one.bug, str(one.target), _standing(one.failed, fails), reason))
        if fails is not None:
            _keep(store, one.bug, one.target, fails, reason)
    for name in sorted(fresh - {one.bug.id for one in replayed}):
        bug = met[name]
        told.append(WatchedBug(bug, bug.findings[-1].target, Standing.NEW, bug.summary))
        _keep(store, bug, Target.parse(bug.findings[-1].target), True, bug.summary)
    order = list(Standing)
    return sorted(told, key=lambda one: (order.index(one.standing), one.bug.id))


def _standing(failed: bool, fails: bool | None) -> Standing:
    if fails is None:
        return Standing.UNCLEAR
    if fails:
        return Standing.STILL_FAILS if failed else Standing.BACK
    return Standing.FIXED if failed else Standing.STILL_FIXED


def _keep(store: Store, bug: Bug, target: Target, fails: bool, reason: str) -> None:
    entry = {"target": str(target), "release": release_of(target), "fails": fails, "reason": reason, "when": now()}
    Diagnoses(store).save(bug.id, STEP, {"rounds": [*_rounds(store, bug), entry][-KEPT_ROUNDS:]})


def require_compilers(names: Sequence[str]) -> None:
    """Raise DriftlineError unless every name is a backend, without a release or options."""
    for name in names:
        if "@" in name or ":" in name:
            raise DriftlineError(f"{name!r}: name the compiler alone, and its release with --release.")
        if name not in BACKENDS:
            raise DriftlineError(f"There is no compiler {name!r}.{did_you_mean(name, BACKENDS)} See driftline doctor.")
