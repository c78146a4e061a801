"""Budgets of searches: the one that the user gave is named, and other pools keep to it."""

from __future__ import annotations

import math
import time

import pytest

from driftline.campaign.explain.bisection import ReleaseAnswer, ReleaseWish, _Asker
from driftline.campaign.explain.budget import NoTimeLeft, cut_at_end
from driftline.checking.checker import Checker
from driftline.core.target import Target
from driftline.diagnose.reduce.search import BudgetEnded
from driftline.execute.pool import Pool


def test_of_budgets_within_each_other_the_outermost_is_named() -> None:
    with Pool() as pool:
        told = pytest.raises(NoTimeLeft, match="diagnose: the budget of 3 s ended")
        with told, cut_at_end(pool, 3.0, "diagnose"), cut_at_end(pool, 1.0, "localize"):
            raise BudgetEnded
        assert pool.deadline == math.inf


def test_the_pool_of_a_release_keeps_to_the_deadline() -> None:
    seen: list[float] = []

    def answer(checker: Checker, target: Target) -> tuple[ReleaseAnswer, str]:
        seen.append(checker.pool.deadline)
        return ReleaseAnswer.GOOD, "it passes"

    deadline = time.monotonic() + 60
    asker = _Asker(Target("eager"), answer, ReleaseWish(), "torch", "2.13.0", deadline, lambda line: None)
    assert asker.ask("2.13.0").answer is ReleaseAnswer.GOOD and seen == [deadline]
