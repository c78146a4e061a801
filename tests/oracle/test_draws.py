"""Random numbers of a generator of its own are judged by their distribution over many seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement, Kind
from driftline.oracle.draws import CALLS, CHANCE, Series, chance_of, differing, facts_of, verdict_on

Program = Callable[[np.random.Generator], Arrays]


def dropout(rng: np.random.Generator, size: int = 512) -> np.ndarray:
    return np.where(rng.random(size) < 0.5, 0.0, 2.0).astype(np.float32)


def two_dropouts(rng: np.random.Generator) -> Arrays:
    return {"0": dropout(rng), "1": dropout(rng)}


def merged(rng: np.random.Generator) -> Arrays:
    once = dropout(rng)
    return {"0": once, "1": once.copy()}


def dropped(rng: np.random.Generator) -> Arrays:
    return {"0": dropout(rng), "1": np.ones(512, np.float32)}


def added(rng: np.random.Generator) -> Arrays:
    return {"0": dropout(rng) + dropout(rng)}


def doubled(rng: np.random.Generator) -> Arrays:
    return {"0": 2 * dropout(rng)}


def rows_of_their_own(rng: np.random.Generator) -> Arrays:
    return {"0": rng.random((16, 32))}


def one_row_again_and_again(rng: np.random.Generator) -> Arrays:
    return {"0": np.broadcast_to(rng.random(32), (16, 32)).copy()}


def series(program: Program, first: int, *, follows: bool = True) -> Series:
    facts: dict[str, list[float]] = {}
    for seed in range(first, first + CALLS):
        rng = np.random.default_rng(seed)
        outputs = program(rng)
        for name, value in facts_of(outputs, program(rng if follows else np.random.default_rng(seed))).items():
            facts.setdefault(name, []).append(value)
    return Series({name: tuple(numbers) for name, numbers in facts.items()})


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        (two_dropouts, merged, "correlation with output 1"),
        (two_dropouts, dropped, "output 1: "),
        (added, doubled, "output 0: the standard deviation"),
        (rows_of_their_own, one_row_again_and_again, "correlation of neighbours along axis 0"),
    ],
)
def test_draws_that_are_merged_dropped_or_repeated_are_found(right: Program, wrong: Program, words: str) -> None:
    eager, compiled = series(right, 0), series(wrong, 5_000)
    found = differing(eager, compiled)
    assert found and found[0].chance < CHANCE
    verdict = verdict_on(eager, compiled, found)
    assert verdict.judgement is Judgement.FAIL and verdict.kind is Kind.WRONG_DRAWS
    assert any(words in verdict_on(eager, compiled, [one]).reason for one in found if one.chance < CHANCE)


def test_draws_that_the_next_call_uses_again_are_found() -> None:
    found = differing(series(two_dropouts, 0), series(two_dropouts, 5_000, follows=False))
    assert {name.partition("\n")[2] for name in (one.name for one in found)} >= {"correlation with the next call"}


@pytest.mark.parametrize("program", [two_dropouts, added, rows_of_their_own])
def test_another_generator_with_the_same_distribution_passes(program: Program) -> None:
    for first in range(1_000, 31_000, 1_000):  # no difference by chance in thirty comparisons of many facts
        assert not differing(series(program, 0), series(program, first))


def test_rounding_of_a_number_that_is_the_same_for_every_seed_is_no_difference() -> None:
    assert chance_of([1.0] * 48, [1.0 + 1e-6] * 48, close=1e-3) == 1.0
    assert chance_of([1.0] * 48, [1.1] * 48, close=1e-3) < 1e-15


def test_seed_that_does_not_fix_the_numbers_is_a_failure_where_eager_repeats_them() -> None:
    eager, compiled = series(added, 0), series(added, 5_000)
    loose = Series(compiled.facts, repeats=False)
    verdict = verdict_on(eager, loose, [])
    assert verdict.kind is Kind.WRONG_DRAWS and "for the same seed" in verdict.reason
    assert verdict_on(Series(eager.facts, repeats=False), loose, []).judgement is Judgement.PASS


def test_too_few_calls_are_inconclusive() -> None:
    few = Series({name: numbers[:5] for name, numbers in series(added, 0).facts.items()})
    assert verdict_on(few, few, differing(few, few)).judgement is Judgement.INCONCLUSIVE
