"""Narrowing down: the first part that fails, as small as it gets, for few questions."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence

import pytest

from driftline.diagnose.localize.narrow import narrow


class Program:
    """Fails where one of the culprits is complete."""

    def __init__(self, *culprits: Collection[int]) -> None:
        self.culprits = [frozenset(culprit) for culprit in culprits]
        self.questions = 0

    def fails(self, sets: Sequence[Sequence[int]]) -> list[bool]:
        self.questions += len(sets)
        return [any(culprit <= set(chosen) for culprit in self.culprits) for chosen in sets]


@pytest.mark.parametrize("place", [0, 1, 63, 99, 198, 199])
def test_one_operator_is_found_for_two_logarithms(place: int) -> None:
    program = Program({place})
    assert narrow(range(200), program.fails) == [place]
    assert program.questions <= 2 * math.ceil(math.log2(200))


def test_of_several_the_first_is_taken() -> None:
    assert narrow(range(100), Program({80}, {13}, {14}).fails) == [13]


@pytest.mark.parametrize("pair", [(0, 1), (49, 50), (31, 32), (10, 90), (0, 99)])
def test_neighbours_and_far_apart_operators(pair: tuple[int, int]) -> None:
    program = Program(pair)
    assert narrow(range(100), program.fails) == list(pair)
    assert program.questions < 40


def test_what_is_found_fails_and_needs_every_operator() -> None:
    rng = random.Random(0)
    for _ in range(200):
        size = rng.randint(1, 60)
        program = Program(*(rng.sample(range(size), rng.randint(1, min(3, size))) for _ in range(rng.randint(1, 2))))
        found = narrow(range(size), program.fails)
        assert program.fails([found]) == [True]
        smaller = [[other for other in found if other != one] for one in found]
        assert not any(program.fails([rest])[0] for rest in smaller if rest), (program.culprits, found)
