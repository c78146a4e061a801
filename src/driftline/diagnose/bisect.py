"""Where along a line of releases does an answer change? A search that asks as few releases as it can.

As in git bisect a release may say good, bad, or nothing at all (skip). Unlike there, a bug may come and go: whatever is
known already divides the line, and every stretch whose two ends differ is searched for its change.
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
    SKIP = "skip"  # it cannot run the case, so it says nothing


@dataclass(frozen=True)
class ReleaseChange:
    """Between two releases the answer changes. Those in between, if any, could not say or were not asked."""

    before: str
    after: str
    to: ReleaseAnswer
    unclear: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bisection:
    """What was asked, and what follows from it."""

    releases: tuple[str, ...]  # that were searched, oldest first
    answers: Mapping[str, ReleaseAnswer]  # in the order of asking
    existing: tuple[str, ...] = ()  # all that there are, the searched among them, oldest first; empty: not known

    @property
    def line(self) -> tuple[str, ...]:
        """All releases that are known of."""
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
        """The stretches that show the bug, each by its oldest and newest release that was seen bad."""
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
        """One sentence for people, which claims nothing of releases that were not asked."""
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
        """Is it known of all older releases that they do not run the case?"""
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
    """Find every change of the answer along `releases` (oldest first) that can be told from the known ones.

    Those in `first` are asked before all others: what is cheap, and what is already known to be bad. Then the two ends.
    Between two releases with the same answer nothing more is asked.
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
    """Ask the first of the line; while it cannot run the case, go inwards by growing steps."""
    at, step = 0, 1
    while at < len(line) and know(line[at]) is ReleaseAnswer.SKIP:
        at, step = at + step, 2 * step


def _most_telling(releases: Sequence[str], answers: Mapping[str, ReleaseAnswer]) -> str:
    """The release nearest to the middle of a stretch whose ends differ; nothing when all stretches are settled."""
    decided = [i for i, r in enumerate(releases) if answers.get(r, ReleaseAnswer.SKIP) is not ReleaseAnswer.SKIP]
    for left, right in itertools.pairwise(decided):
        open_ones = [i for i in range(left + 1, right) if releases[i] not in answers]
        if answers[releases[left]] is not answers[releases[right]] and open_ones:
            return releases[min(open_ones, key=lambda i: abs(2 * i - left - right))]
    return ""


def same_across_releases(wanted: Signature, seen: Signature) -> bool:
    """Is this the same failure, seen in another release?

    Releases word an error anew, and one that lost a NaN may lose numbers besides. So messages need only be alike, and
    numbers only be wrong; the stage and everything else must agree.
    """
    if wanted.kind in _WRONG_NUMBERS:
        return seen.kind in _WRONG_NUMBERS
    if (wanted.kind, wanted.stage) != (seen.kind, seen.stage):
        return False
    alike = difflib.SequenceMatcher(None, wanted.message.split(), seen.message.split(), autojunk=False).ratio()
    return wanted.message == seen.message or alike >= ALIKE
