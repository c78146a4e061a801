"""The search over releases, with a plain predicate in place of a compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from driftline.core.evidence import Evidence
from driftline.core.verdict import Kind
from driftline.diagnose.bisect import Bisection, ReleaseAnswer, bisect, same_across_releases
from driftline.diagnose.reduce.signature import Signature

LINE = [f"1.{number}" for number in range(32)]


def raised(stage: str, kind: str, text: str) -> Signature:
    exception, _, said = text.partition(": ")
    return Signature.of(stage, kind, Evidence(exception=exception, said=said))


class Asked:
    """Counts questions; `bad` and `skip` are the numbers of releases."""

    def __init__(self, bad: Callable[[int], bool], skip: Callable[[int], bool] = lambda number: False) -> None:
        self._bad, self._skip = bad, skip
        self.order: list[int] = []

    def __call__(self, release: str) -> ReleaseAnswer:
        number = int(release.partition(".")[2])
        assert number not in self.order, "asked twice"
        self.order.append(number)
        if self._skip(number):
            return ReleaseAnswer.SKIP
        return ReleaseAnswer.BAD if self._bad(number) else ReleaseAnswer.GOOD


def of_all(found: Bisection) -> str:
    """What is said when there are no other releases than those of the line."""
    return replace(found, existing=tuple(LINE)).summary()


@pytest.mark.parametrize("first_bad", range(1, 32))
def test_the_first_bad_release_is_found_in_few_questions(first_bad: int) -> None:
    ask = Asked(lambda number: number >= first_bad)
    found = bisect(LINE, ask)
    (change,) = found.changes
    assert (change.before, change.after, change.to) == (f"1.{first_bad - 1}", f"1.{first_bad}", ReleaseAnswer.BAD)
    assert len(ask.order) <= 7
    assert of_all(found) == f"first bad 1.{first_bad} (1.{first_bad - 1} is good)"


def test_a_bug_that_comes_and_goes_has_two_changes() -> None:
    """One bad release in the middle is known: both of its sides are searched."""
    ask = Asked(lambda number: 6 <= number <= 11)
    found = bisect(LINE, ask, first=["1.9"])
    assert ask.order[:3] == [9, 0, 31]
    assert [(c.after, c.to) for c in found.changes] == [("1.6", ReleaseAnswer.BAD), ("1.12", ReleaseAnswer.GOOD)]
    assert found.ranges == (("1.6", "1.11"),)
    assert of_all(found) == "first bad 1.6 (1.5 is good); good since 1.12 (1.11 is bad)"
    assert len(ask.order) <= 12


def test_what_is_cheap_is_asked_first_and_spares_questions() -> None:
    cheap = ["1.14", "1.15", "1.16", "1.17"]
    ask = Asked(lambda number: number >= 16)
    found = bisect(LINE, ask, first=cheap)
    assert ask.order == [14, 15, 16, 17, 0, 31]
    assert found.changes[0].after == "1.16"


def test_always_bad_and_never_bad() -> None:
    always = bisect(LINE, Asked(lambda number: True))
    assert always.always_bad and not always.changes and always.ranges == (("1.0", "1.31"),)
    assert of_all(always) == "bad in both releases asked, from 1.0, the oldest that runs it, to 1.31, the newest"
    never = bisect(LINE, Asked(lambda number: False))
    assert not never.ranges and never.summary() == "no release that was tried shows it"


def test_bad_from_the_oldest_on_and_fixed_later() -> None:
    found = bisect(LINE, Asked(lambda number: number < 5))
    assert of_all(found) == "bad in 1.0, the oldest that runs it; good since 1.5 (1.4 is bad)"


def some(bad: Callable[[int], bool], *numbers: int, skip: Callable[[int], bool] = lambda number: False) -> Bisection:
    """A search among some releases of the line."""
    asked = [LINE[number] for number in numbers]
    return bisect(asked, Asked(bad, skip), first=asked)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (some(lambda number: True, 31), "bad in 1.31, the only release asked"),
        (some(lambda number: True, 3, 9, 31), "bad in all 3 releases asked (1.3 ... 1.31)"),
        (
            some(lambda number: True, 3, 9, 31, skip=lambda number: number == 3),
            "bad in both that run it of 3 releases asked (1.9 ... 1.31)",
        ),
        (
            some(lambda number: True, 3, 9, skip=lambda number: number == 3),
            "bad in 1.9, the only one that runs it of 2 releases asked",
        ),
        (some(lambda number: number >= 9, 3, 9, 31), "first bad 1.9 of those asked (1.3 is good)"),
        (
            some(lambda number: number < 9, 3, 9),
            "bad in 1.3, the oldest that runs it of those asked; good since 1.9 of those asked (1.3 is bad)",
        ),
    ],
)
def test_nothing_is_claimed_of_releases_that_were_not_asked(found: Bisection, told: str) -> None:
    assert found.summary() == told


def test_releases_between_that_were_not_asked_are_counted() -> None:
    found = some(lambda number: number >= 9, 3, 9, 10, 31)
    (change,) = replace(found, existing=tuple(LINE)).changes
    assert change.unasked == ("1.4", "1.5", "1.6", "1.7", "1.8") and not change.unclear
    assert of_all(found) == "first bad 1.9 of those asked (1.3 is good; 5 releases between them were not asked)"
    near = some(lambda number: number >= 9, 7, 9)
    assert of_all(near) == "first bad 1.9 of those asked (1.7 is good; one between them was not asked)"
    beside = some(lambda number: number >= 9, 8, 9)
    assert of_all(beside) == "first bad 1.9 (1.8 is good)"


def test_releases_that_cannot_run_the_case_say_nothing() -> None:
    ask = Asked(lambda number: number >= 20, skip=lambda number: number in (15, 16, 19, 20, 21))
    (change,) = bisect(LINE, ask).changes
    assert (change.before, change.after, change.unclear) == ("1.18", "1.22", ("1.19", "1.20", "1.21"))


def test_an_end_that_cannot_run_is_left_by_growing_steps() -> None:
    """Many old releases do not run: not each of them is tried."""
    ask = Asked(lambda number: number >= 25, skip=lambda number: number < 12)
    found = bisect(LINE, ask)
    assert ask.order[:5] == [0, 1, 3, 7, 15]
    assert found.changes[0].after == "1.25"


def test_nothing_runs() -> None:
    found = bisect(LINE[:4], Asked(lambda number: True, skip=lambda number: True))
    assert not found.decided and not found.changes and not found.always_bad


@pytest.mark.parametrize(
    ("seen", "same"),
    [
        (
            raised("COMPILE", Kind.ERROR, "Exception: 6 : while fusing, lib/fusion.cc:77 Status Apply"),
            True,
        ),
        (raised("COMPILE", Kind.ERROR, "AttributeError: module has no attribute 'Core'"), False),
        (raised("RUN", Kind.ERROR, "Fail: 1 : while fusing, lib/fusion.cc:83 Status Apply"), False),
        (raised("COMPILE", Kind.CRASH, "Fail: 1 : while fusing, lib/fusion.cc:83 Status Apply"), False),
    ],
)
def test_an_error_in_other_words_is_the_same_error(seen: Signature, same: bool) -> None:
    wanted = raised("COMPILE", Kind.ERROR, "Fail: 1 : while fusing, lib/fusion.cc:83 Status Apply")
    assert same_across_releases(wanted, seen) is same


def test_wrong_numbers_are_one_failure_whatever_else_is_wrong() -> None:
    lost_nan = Signature("RUN", Kind.WRONG_NONFINITE)
    assert same_across_releases(lost_nan, Signature("RUN", Kind.WRONG_VALUE))
    assert not same_across_releases(lost_nan, Signature("RUN", Kind.WRONG_SHAPE))


def test_releases_that_all_cannot_run_it_say_nothing() -> None:
    found = bisect(LINE, Asked(lambda number: True, skip=lambda number: True))
    assert found.summary() == "no release that was tried could run it" and not found.ranges
