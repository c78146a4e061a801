"""Rounds: contestants take turns, short calls are repeated, and slow ones end by the clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from driftline.measure.rounds import FEWEST_ROUNDS, MOST_CALLS, RoundLimits, Timing, calls_in_a_round, interleave


@dataclass
class Scripted:
    """Says that each call takes so long."""

    name: str
    seconds: float
    log: list[tuple[str, int]] = field(default_factory=list)

    def time(self, calls: int) -> Timing:
        self.log.append((self.name, calls))
        return Timing(self.seconds, self.seconds / 2)


def test_contestants_take_turns_and_change_who_is_first() -> None:
    log: list[tuple[str, int]] = []
    first, second = Scripted("a", 0.02, log), Scripted("b", 0.01, log)
    told: list[tuple[int, int]] = []
    taken = interleave(first, second, RoundLimits(7), tell=lambda done, of: told.append((done, of)))
    order = "".join(name for name, _ in log)
    assert order == "ab" + "abbaabbaabbaab"
    assert {calls for name, calls in log[2:] if name == "a"} == {2} and {c for n, c in log[2:] if n == "b"} == {5}
    assert len(taken.first) == len(taken.second) == 7 and told[-1] == (6, 7)
    assert taken.ratio("cpu").value == pytest.approx(2.0)


def test_the_clock_ends_slow_rounds_but_not_before_there_are_enough() -> None:
    taken = interleave(Scripted("a", 1.0), Scripted("b", 1.0), RoundLimits(50, seconds=0.0))
    assert len(taken.first) == FEWEST_ROUNDS


def test_no_round_is_begun_once_the_question_is_settled() -> None:
    taken = interleave(
        Scripted("a", 2.0), Scripted("b", 1.0), RoundLimits(50), settled=lambda taken: len(taken.first) >= 11
    )
    assert len(taken.first) == len(taken.second) == 11
    taken = interleave(Scripted("a", 2.0), Scripted("b", 1.0), RoundLimits(50), settled=lambda taken: True)
    assert len(taken.first) == FEWEST_ROUNDS
    taken = interleave(Scripted("a", 2.0), Scripted("b", 1.0), RoundLimits(50, fewest=3), settled=lambda taken: True)
    assert len(taken.first) == 3
    taken = interleave(Scripted("a", 2.0), Scripted("b", 1.0), RoundLimits(50, 0.0, 3))
    assert len(taken.first) == 3


@pytest.mark.parametrize(("seconds", "calls"), [(10.0, 1), (0.05, 1), (0.005, 10), (1e-9, MOST_CALLS)])
def test_a_round_has_as_many_calls_as_fill_a_moment(seconds: float, calls: int) -> None:
    assert calls_in_a_round(Timing(seconds, seconds)) == calls
