"""Runs a failing case in other releases of its compiler, to find those that show the bug.

Only the compiler runs in the other release. The expected results are computed once, by the framework that is installed
here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from driftline.backends import BACKENDS
from driftline.backends.base import Backend
from driftline.campaign.explain.failing import Failing
from driftline.campaign.explain.inquiry import AskRelease, ReleaseInquiry
from driftline.checking.checker import Checker, TargetResult
from driftline.core.errors import DriftlineError
from driftline.core.program import SCRIPT
from driftline.core.target import Target
from driftline.core.text import did_you_mean, first_line
from driftline.core.verdict import Judgement
from driftline.diagnose.bisect import Bisection, ReleaseAnswer, bisect, same_across_releases
from driftline.diagnose.reduce.signature import Signature
from driftline.execute.environments import add_environment, list_environments, remove_environment
from driftline.execute.pool import Pool
from driftline.execute.releases import download_size, list_releases, public, release_key
from driftline.oracle.judge import Reference
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses

STEP = "bisect"
# Releases of these packages are large downloads: the user has to name the wanted ones.
_LARGE = {"torch": "0.2 to 0.9 GB, without its GPU libraries"}


@dataclass(frozen=True)
class ReleaseWish:
    """The user's wishes for a search among releases, and the limits of its cost."""

    package: str = ""  # default: the package of the compiler
    good: str = ""
    bad: str = ""
    releases: tuple[str, ...] = ()  # instead of all releases that the index lists
    installed: bool = False  # use only releases that have an environment
    keep: bool = False  # keep the environments that the search made
    download: int = 1 << 30  # bytes that one release may download


@dataclass(frozen=True)
class Trial:
    """The answer of one release."""

    release: str
    answer: ReleaseAnswer
    reason: str
    seconds: float
    made: bool  # its environment was made for this trial

    def to_json(self) -> dict[str, Any]:
        return {
            "release": self.release,
            "answer": str(self.answer),
            "reason": self.reason,
            "seconds": round(self.seconds, 2),
            "made": self.made,
        }


@dataclass(frozen=True)
class Bisected:
    """The result of a search among releases, for display and for the store."""

    package: str
    failing: Failing
    search: Bisection
    trials: tuple[Trial, ...]  # in the order of asking

    @property
    def in_order(self) -> list[Trial]:
        """The trials by release, oldest first."""
        return sorted(self.trials, key=lambda trial: release_key(trial.release))

    def to_json(self) -> dict[str, Any]:
        search = self.search
        came = next((change.after for change in reversed(search.changes) if change.to is ReleaseAnswer.BAD), None)
        went = next((change.after for change in reversed(search.changes) if change.to is ReleaseAnswer.GOOD), None)
        return {
            "bug": self.failing.bug.id,
            "case": self.failing.finding.case_id,
            "target": str(self.failing.target),
            "package": self.package,
            "summary": search.summary(),
            "always_bad": search.always_bad,
            "first_bad": came,
            "first_good": went,
            "changes": [
                {**vars(c), "to": str(c.to), "unclear": list(c.unclear), "unasked": list(c.unasked)}
                for c in search.changes
            ],
            "bad_ranges": [list(pair) for pair in search.ranges],
            "releases": list(search.releases),
            "trials": [trial.to_json() for trial in self.trials],
        }


def bisect_failing(
    checker: Checker,
    failing: Failing,
    wish: ReleaseWish,
    *,
    inquiry: ReleaseInquiry | None = None,
    report: Callable[[str], None] = lambda line: None,
    tried: Callable[[Trial], None] = lambda trial: None,
) -> Bisected:
    """Search the releases of a package for those that show a failure. `inquiry` decides it for cost bugs, whose results
    are right, and for bugs of scripts."""
    carrier = _carrier(failing)
    package = _package(carrier, wish.package)
    here = public(carrier.version()) if carrier.packages[0] == package else ""  # the installed version of the compiler
    seen = failing.target.version or here
    offer = _offer(package, wish, seen, here)
    line = _between(offer.releases, wish, seen)
    cheap = [r for r in line if r == here or r in _environments(package)]
    answer = inquiry.releases(failing.case) if inquiry else _WrongResult(checker, failing)
    asker = _Asker(failing.target, answer, wish, package, here, checker.pool.deadline, report)
    trials: list[Trial] = []

    def ask(release: str) -> ReleaseAnswer:
        trials.append(asker.ask(release))
        tried(trials[-1])
        _require_as_told(wish, trials[-1])
        return trials[-1].answer

    first = [r for r in dict.fromkeys((seen, *cheap, wish.good, wish.bad)) if r in line]
    search = bisect(line, ask, first=first)
    existing = offer.releases if offer.complete else _existing(package, search)
    return Bisected(package, failing, replace(search, existing=tuple(existing)), tuple(trials))


def keep_bisection(store: Store, bisected: Bisected) -> None:
    """Store the result of a search with its bug."""
    Diagnoses(store).save(bisected.failing.bug.id, STEP, bisected.to_json())


# -- what to ask -------------------------------------------------------------------------------------------------------


def _carrier(failing: Failing) -> Backend:
    """Return the backend whose package is searched: that of the target, or torch's for a script, which names its own
    backends."""
    return BACKENDS.get("inductor" if failing.case.program.form == SCRIPT else failing.target.backend)


def _package(carrier: Backend, wanted: str) -> str:
    """Return the package whose releases are searched. Raises DriftlineError unless it carries the failing compiler."""
    packages = carrier.packages
    if not packages:
        raise DriftlineError(f"{carrier.name} has no package of its own, so there are no releases of it to compare.")
    if wanted and wanted not in packages:
        raise DriftlineError(
            f"The failing compiler, {carrier.name}, is not in the package {wanted!r}."
            f"{did_you_mean(wanted, packages)} Its packages: {', '.join(packages)}."
        )
    return wanted or packages[0]


def _environments(package: str) -> list[str]:
    return [e.version for e in list_environments() if e.package == package]


@dataclass(frozen=True)
class _Offer:
    """The releases that may be searched, oldest first."""

    releases: list[str]
    complete: bool = False  # True if no other releases exist


def _offer(package: str, wish: ReleaseWish, seen: str, here: str) -> _Offer:
    """Return the releases to search: the installed ones, the named ones, or all that can be installed."""
    named = {v for v in (*wish.releases, wish.good, wish.bad) if v}
    known = {v for v in (seen, here) if v}
    if wish.installed:
        present = {v for v in (*_environments(package), here) if v}
        _require_offered(package, named, present, "is not installed here, and --installed asks only what is")
        return _Offer(_sorted(named | (known & present) if wish.releases else present))
    if wish.releases:
        return _Offer(_sorted(named | known))
    if package in _LARGE and not named:
        raise DriftlineError(
            f"A release of {package} is a download of {_LARGE[package]}: say between which to search, with"
            " --good and --bad, or name those to ask with --releases 2.11.0,2.12.0, or ask only those that are here"
            " with --installed."
        )
    every = {*list_releases(package), *_environments(package), *known}
    _require_offered(package, named, every, "is no release that installs here")
    return _Offer(_sorted(every), complete=True)


def _require_offered(package: str, named: set[str], offered: set[str], problem: str) -> None:
    """Raise DriftlineError for a named release that is not offered, so that a typing error does not empty the
    search."""
    for release in _sorted(named - offered):
        below = [v for v in _sorted(offered) if release_key(v) < release_key(release)]
        above = [v for v in _sorted(offered) if release_key(v) > release_key(release)]
        near = f" Near it: {', '.join((*below[-1:], *above[:1]))}." if offered else ""
        raise DriftlineError(f"{package} {release} {problem}.{did_you_mean(release, _sorted(offered)) or near}")


def _between(releases: Sequence[str], wish: ReleaseWish, seen: str) -> list[str]:
    """Return the releases from the good to the bad end, or all if an end is not given."""
    ends = [v for v in (wish.good, wish.bad or (seen if wish.good else "")) if v]
    if len(ends) < 2:
        return list(releases)
    low, high = sorted(release_key(v) for v in ends)
    return [v for v in releases if low <= release_key(v) <= high]


def _existing(package: str, search: Bisection) -> list[str]:
    """Return all releases of the package if a change was found among some, since others may lie in between; else an
    empty list. The list is also empty if the index cannot be reached."""
    if not search.changes:
        return []
    try:
        return _sorted({*list_releases(package), *search.releases})
    except DriftlineError:  # no index can be reached; a search among installed releases does not need one
        return []


def _sorted(releases: Iterable[str]) -> list[str]:
    return sorted(releases, key=release_key)


def _require_as_told(wish: ReleaseWish, trial: Trial) -> None:
    """Raise DriftlineError if the answer of a release contradicts the user's --good or --bad."""
    for told, release in ((ReleaseAnswer.GOOD, wish.good), (ReleaseAnswer.BAD, wish.bad)):
        if trial.release == release and trial.answer is not told:
            raise DriftlineError(
                f"{release} was named as --{told}, but the answer is {trial.answer}: {trial.reason}."
                f" Name another, or leave --{told} out."
            )


# -- asking ------------------------------------------------------------------------------------------------------------


class _Asker:
    """Runs the case in one release after another, each in an environment of its own."""

    def __init__(
        self,
        target: Target,
        answer: AskRelease,
        wish: ReleaseWish,
        package: str,
        here: str,
        deadline: float,
        report: Callable[[str], None],
    ) -> None:
        self._deadline = deadline
        self._target = target
        self._answer = answer
        self._wish = wish
        self._package = package
        self._here = here
        self._report = report

    def ask(self, release: str) -> Trial:
        """Make an environment for a release if needed, run the case there, and return the answer."""
        began = time.monotonic()
        made = False
        try:
            made = release != self._here and self._prepare(release)
            answer, reason = self._run(release)
        except DriftlineError as error:
            answer, reason = ReleaseAnswer.SKIP, str(error)
        finally:
            if made and not self._wish.keep:
                remove_environment(f"{self._package}=={release}")
        return Trial(release, answer, _shortened(reason), time.monotonic() - began, made)

    def _prepare(self, release: str) -> bool:
        """Make sure that a release has an environment; return True if it had to be made."""
        if release in _environments(self._package):
            return False
        requirement = f"{self._package}=={release}"
        size = download_size([requirement, "numpy"])
        told = f"{size / 1e6:,.0f} MB" if size else "of unknown size"
        if size and size > self._wish.download:
            limit = f"{self._wish.download / 1e6:,.0f} MB"
            raise DriftlineError(f"not asked: a download of {told}, more than --max-download {limit}")
        self._report(f"{requirement}: a download of at most {told}" if size else f"{requirement}: a download {told}")
        add_environment(requirement, report=self._report)
        return True

    def _run(self, release: str) -> tuple[ReleaseAnswer, str]:
        target = replace(self._target, version=None if release == self._here else release)
        # A pool of its own, so that none of this release's processes is left when its environment is removed.
        with Pool() as pool:
            pool.deadline = self._deadline
            return self._answer(Checker(pool), target)


class _WrongResult:
    """Decides whether a release fails in the same way as the bug. The reference is computed once."""

    def __init__(self, checker: Checker, failing: Failing) -> None:
        self._case = failing.case
        self._reference: Reference = checker.reference(failing.case)
        self._signature = Signature.of_finding(failing.finding.verdict, failing.finding.execution)

    def __call__(self, checker: Checker, target: Target) -> tuple[ReleaseAnswer, str]:
        outcome = checker.check(self._case.only(target), known_reference=self._reference)
        if outcome.skipped:
            return ReleaseAnswer.SKIP, outcome.skipped[0].reason
        return self._judged(outcome.results[0])

    def _judged(self, result: TargetResult) -> tuple[ReleaseAnswer, str]:
        verdict, execution = result.verdict, result.execution
        if verdict.agrees:
            return ReleaseAnswer.GOOD, verdict.reason
        if verdict.judgement is not Judgement.FAIL:
            return ReleaseAnswer.SKIP, f"{verdict.judgement}: {verdict.reason}"
        seen = Signature.of_verdict(execution, verdict).of_any_fault()
        if same_across_releases(self._signature, seen):
            return ReleaseAnswer.BAD, verdict.reason
        return ReleaseAnswer.SKIP, f"fails in another way: {verdict.reason}"


def _shortened(reason: str) -> str:
    """Return the first line of a message, with its last line added if the first is a heading ("in user code:")."""
    first = first_line(reason)
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    return f"{first} ... {first_line(lines[-1])}" if first.endswith(":") and len(lines) > 1 else first


def parse_releases(text: str) -> Sequence[str]:
    """Split a comma-separated list of releases: 1.20.1,1.21.0."""
    return [part.strip() for part in text.split(",") if part.strip()]
