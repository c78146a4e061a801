"""Find where along a line of releases an answer changes, with few releases asked.

As in git bisect, the answer of a release is good, bad or skip (unknown). Unlike there, a bug may come and go: the known
answers divide the line into ranges, and every range whose two ends differ is searched for its change.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from driftline.core.verdict import Kind
from driftline.diagnose.reduce.signature import Signature

ALIKE = 0.6  # share of the words that two messages have in common, in order
_WRONG_NUMBERS = (Kind.WRONG_VALUE, Kind.WRONG_NONFINITE, Kind.BIAS)


class ReleaseAnswer(StrEnum):
    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"  # the release cannot run the case


@dataclass(frozen=True)
class ReleaseChange:
    """Two releases between which the answer changes. Releases between them could not run the case or were not asked."""

    before: str
    after: str
    to: ReleaseAnswer
    unclear: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bisection:
    """The answers of the releases that were asked, and the conclusions from them."""

    releases: tuple[str, ...]  # that were searched, oldest first
    answers: Mapping[str, ReleaseAnswer]  # in the order of asking
    existing: tuple[str, ...] = ()  # all that there are, the searched among them, oldest first; empty: not known

    @property
    def line(self) -> tuple[str, ...]:
        """All known releases, oldest first."""
        return self.existing or self.releases

    @property
    def decided(self) -> tuple[str, ...]:
        """The releases that said good or bad, oldest first."""
        return tuple(r for r in self.releases if self.answers.get(r, ReleaseAnswer.SKIP) is not ReleaseAnswer.SKIP)

    @property
    def changes(self) -> tuple[ReleaseChange, ...]:
        found = []
        for before, after in itertools.pairwise(self.decided):
            if self.answers[before] is not self.answers[after]:
                between = self.line[self.line.index(before) + 1 : self.line.index(after)]
                unclear = tuple(r for r in between if r in self.answers)
                unasked = tuple(r for r in between if r not in self.answers)
                found.append(ReleaseChange(before, after, self.answers[after], unclear, unasked))
        return tuple(found)

    @property
    def ranges(self) -> tuple[tuple[str, str], ...]:
        """The ranges of releases that show the bug, each by the oldest and newest release seen bad."""
        found: list[list[str]] = []
        last = ReleaseAnswer.GOOD
        for release in self.decided:
            answer = self.answers[release]
            if answer is ReleaseAnswer.BAD and last is ReleaseAnswer.BAD:
                found[-1][1] = release
            elif answer is ReleaseAnswer.BAD:
                found.append([release, release])
            last = answer
        return tuple((first, latest) for first, latest in found)

    @property
    def always_bad(self) -> bool:
        return bool(self.decided) and all(self.answers[r] is ReleaseAnswer.BAD for r in self.decided)

    def summary(self) -> str:
        """Return one sentence for people, which claims nothing about releases that were not asked."""
        if not self.decided:
            return "no release that was tried could run it"
        if not self.ranges:
            return "no release that was tried shows it"
        if self.always_bad:
            return self._bad_everywhere()
        oldest = self.decided[0]
        among = "" if self._nothing_open(older_than=oldest) else " of those asked"
        parts = (
            [f"bad in {oldest}, the oldest that runs it{among}"] if self.answers[oldest] is ReleaseAnswer.BAD else []
        )
        return "; ".join([*parts, *(_sentence(change, bool(self.existing)) for change in self.changes)])

    def _bad_everywhere(self) -> str:
        oldest, newest = self.decided[0], self.decided[-1]
        bad, asked = len(self.decided), len(self.answers)
        if bad == 1:
            return f"bad in {oldest}, the only " + (
                "release asked" if asked == 1 else f"one that runs it of {asked} releases asked"
            )
        every = "both" if bad == 2 else f"all {bad}"
        which = f"{every} releases asked" if bad == asked else f"{every} that run it of {asked} releases asked"
        if self._nothing_open(older_than=oldest) and newest == self.line[-1]:
            return f"bad in {which}, from {oldest}, the oldest that runs it, to {newest}, the newest"
        return f"bad in {which} ({oldest} ... {newest})"

    def _nothing_open(self, older_than: str) -> bool:
        """True if all older releases are known not to run the case."""
        return bool(self.existing) and all(r in self.answers for r in self.line[: self.line.index(older_than)])


def _sentence(change: ReleaseChange, all_known: bool) -> str:
    came = change.to is ReleaseAnswer.BAD
    first, opposite = ("first bad", "good") if came else ("good since", "bad")
    which = f"one of {', '.join((*change.unclear, change.after))}" if change.unclear else change.after
    among = " of those asked" if change.unasked or not all_known else ""
    why = f"{change.before} is {opposite}"
    if change.unclear:
        why += f", {', '.join(change.unclear)} cannot run it"
    if count := len(change.unasked):
        why += f"; {count} releases between them were not asked" if count > 1 else "; one between them was not asked"
    return f"{first} {which}{among} ({why})"


def bisect(releases: Sequence[str], ask: Callable[[str], ReleaseAnswer], *, first: Sequence[str] = ()) -> Bisection:
    """Find every change of the answer along `releases` (oldest first) that the asked releases reveal.

    Releases in `first` are asked before all others, for instance because they are installed or known to be bad; then
    the two ends. Releases between two equal answers are not asked.
    """
    answers: dict[str, ReleaseAnswer] = {}

    def know(release: str) -> ReleaseAnswer:
        if release not in answers:
            answers[release] = ask(release)
        return answers[release]

    for release in first:
        know(release)
    for line in (list(releases), list(reversed(releases))):
        _find_end(line, know)
    while telling := _most_telling(releases, answers):
        know(telling)
    return Bisection(tuple(releases), answers)


def _find_end(line: Sequence[str], know: Callable[[str], ReleaseAnswer]) -> None:
    """Ask the first release of the line; while a release cannot run the case, go inwards by growing steps."""
    at, step = 0, 1
    while at < len(line) and know(line[at]) is ReleaseAnswer.SKIP:
        at, step = at + step, 2 * step


def _most_telling(releases: Sequence[str], answers: Mapping[str, ReleaseAnswer]) -> str:
    """Return the release nearest to the middle of a range whose ends differ, or an empty string if all ranges are
    settled.
    """
    decided = [i for i, r in enumerate(releases) if answers.get(r, ReleaseAnswer.SKIP) is not ReleaseAnswer.SKIP]
    for left, right in itertools.pairwise(decided):
        open_ones = [i for i in range(left + 1, right) if releases[i] not in answers]
        if answers[releases[left]] is not answers[releases[right]] and open_ones:
            return releases[min(open_ones, key=lambda i: abs(2 * i - left - right))]
    return ""


def same_across_releases(wanted: Signature, seen: Signature) -> bool:
    """True if a failure seen in another release is the same failure.

    Error messages change between releases, and a release that loses a NaN may also compute wrong numbers. So messages
    need only be similar, and any wrong results count as the same; the stage and the kind of other failures must agree.
    """
    if wanted.kind in _WRONG_NUMBERS:
        return seen.kind in _WRONG_NUMBERS
    if (wanted.kind, wanted.stage) != (seen.kind, seen.stage):
        return False
    alike = difflib.SequenceMatcher(None, wanted.message.split(), seen.message.split(), autojunk=False).ratio()
    return wanted.message == seen.message or alike >= ALIKE
