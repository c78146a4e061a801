"""Judges random numbers that a compiler draws with a generator of its own: not the numbers, but what is promised of
them.

Eager and the compiled program are called with the same many seeds. Each call is described by facts such as the mean of
an output, the share of zeros, or how far two outputs go together. Over the seeds a fact is a sample of independent
numbers, so that the two-sample Kolmogorov-Smirnov test, which assumes no distribution, can compare both sides. Draws
that are merged, dropped, or used again in the next call change such a fact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from driftline.core.evidence import Evidence, Fault
from driftline.core.sentences import called, failing
from driftline.core.tensors import Array, Arrays
from driftline.core.verdict import Judgement, Kind, Verdict

CALLS = 48  # seeds
FEWEST = 24  # with fewer seeds nothing is said
CHANCE = 1e-8  # a difference that has a smaller chance is a suspect ...
CHANCE_AGAIN = 1e-6  # ... and a failure if the same fact differs so with other seeds
MOST_OUTPUTS = 6  # that are compared with each other
MOST_ELEMENTS = 1 << 16  # of an output, from its beginning
CLOSE = 1e-3  # facts this close count as equal: legal rounding moves them, too
CLOSE_IN_HALF = 1e-2

# What a fact measures, in words; those in `_SCALED` have the size of the numbers of their output.
_SCALED = ("mean", "standard deviation", "smallest number", "largest number", "median")
_NEXT = "correlation with the next call"
_SAME_NEXT = "share of numbers that the next call repeats"
_PAIR = "correlation with"
_BOTH_ZERO = "share of zeros in common with"


@dataclass(frozen=True)
class Series:
    """The facts of one side: for each output and fact, one number for each seed. `repeats`: two calls with the same
    seed return the same numbers."""

    facts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    repeats: bool = True
    half: bool = False  # an output is in half precision


@dataclass(frozen=True)
class Differing:
    """A fact whose distribution differs. `chance`: the probability of such a difference between equal generators."""

    name: str
    chance: float
    expected: float  # the median over the seeds
    came: float


def facts_of(outputs: Arrays, following: Arrays) -> dict[str, float]:
    """Return the facts of one call. `following`: the outputs of the next call, without a new seed."""
    found: dict[str, float] = {}
    numbers = {name: flat for name, array in outputs.items() if (flat := _flat(array)).size}
    for name, flat in numbers.items():
        size = math.sqrt(float(np.mean(flat**2)))
        told = (flat.mean(), flat.std(), flat.min(), flat.max(), np.median(flat))
        found |= {_key(name, word): float(value) for word, value in zip(_SCALED, told, strict=True)}
        found[_key(name, "size")] = size
        found[_key(name, "share of zeros")] = float(np.mean(flat == 0))
        for axis, length in enumerate(outputs[name].shape[:4]):
            if length > 1 and flat.size == outputs[name].size:
                shaped = flat.reshape(outputs[name].shape)
                one, other = np.delete(shaped, -1, axis), np.delete(shaped, 0, axis)
                found[_key(name, f"correlation of neighbours along axis {axis}")] = _together(one, other)
        after = _flat(following.get(name, np.zeros(0)))
        if after.shape == flat.shape:
            found[_key(name, _NEXT)] = _together(flat, after)
            found[_key(name, _SAME_NEXT)] = float(np.mean((flat == after) & (flat != 0)))
    for left, right in combinations(list(numbers)[:MOST_OUTPUTS], 2):
        first, second = numbers[left], numbers[right]
        if first.shape == second.shape:
            found[_key(left, f"{_PAIR} {called(right)}")] = _together(first, second)
            found[_key(left, f"{_BOTH_ZERO} {called(right)}")] = float(np.mean((first == 0) & (second == 0)))
    return found


def differing(eager: Series, compiled: Series) -> list[Differing]:
    """Return the facts that differ, the least likely first."""
    found = []
    for name, expected in eager.facts.items():
        came = compiled.facts.get(name, ())
        if min(len(expected), len(came)) < FEWEST or name.endswith(_key("", "size")):
            continue
        output, _, word = name.partition(_SEPARATOR)
        scale = float(np.median(eager.facts[_key(output, "size")])) or 1.0 if word in _SCALED else 1.0
        close = scale * (CLOSE_IN_HALF if eager.half else CLOSE)
        chance = chance_of(expected, came, close)
        found.append(Differing(name, chance, float(np.median(expected)), float(np.median(came))))
    return sorted((one for one in found if one.chance < CHANCE_AGAIN), key=lambda one: one.chance)


def chance_of(one: Sequence[float], other: Sequence[float], close: float = 0.0) -> float:
    """Return the probability of a difference like this between two samples of one distribution, by the two-sample test
    of Kolmogorov and Smirnov. Numbers that are at most `close` apart count as equal."""
    first, second = np.sort(one), np.sort(other)
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return 1.0  # a fact that is not a number says nothing
    apart = max(_ahead(first, second, close), _ahead(second, first, close))
    x = apart * math.sqrt(first.size * second.size / (first.size + second.size))
    if x < 0.3:  # the series needs many terms there, and is 1
        return 1.0
    return min(1.0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * x) ** 2) for k in range(1, 9)))


def verdict_on(eager: Series, compiled: Series, found: Sequence[Differing]) -> Verdict:
    """Return the verdict. `found`: the facts that differ with each of two sets of seeds."""
    if eager.repeats and not compiled.repeats:
        told = ("the same numbers for the same seed",), ("other numbers for the same seed",)
        return failing(Kind.WRONG_DRAWS, Evidence(wanted=told[0], came=told[1], faults=(Fault.OTHER,)))
    if not found:
        calls = min((len(numbers) for numbers in compiled.facts.values()), default=0)
        if calls < FEWEST:
            return Verdict(
                Judgement.INCONCLUSIVE, "the program draws random numbers, and a call takes too long to repeat"
            )
        return Verdict(Judgement.PASS, f"its random numbers are distributed as eager's, over {calls} seeds")
    output, _, word = found[0].name.partition(_SEPARATOR)
    evidence = Evidence(
        output=output,
        wanted=(f"{found[0].expected:.3g}",),
        came=(f"{found[0].came:.3g}",),
        direction=word,
        runs=len(compiled.facts[found[0].name]),
        faults=(Fault.OTHER,),
    )
    return failing(Kind.WRONG_DRAWS, evidence)


_SEPARATOR = "\n"


def _key(output: str, fact: str) -> str:
    return f"{output}{_SEPARATOR}{fact}"


def is_half(array: Array) -> bool:
    return array.dtype.name in ("float16", "bfloat16")


def _flat(array: Array) -> Array:
    """Return the first elements as float64; those of complex numbers as pairs."""
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    if array.dtype.kind not in "fiub" and not is_half(array):
        return np.zeros(0)
    flat = np.asarray(array, dtype=np.float64).reshape(-1)[:MOST_ELEMENTS]
    return flat if np.isfinite(flat).all() else np.zeros(0)


def _together(one: Array, other: Array) -> float:
    """Return the correlation of two arrays; 0 if one of them is constant."""
    left, right = one - one.mean(), other - other.mean()
    size = math.sqrt(float((left**2).sum()) * float((right**2).sum()))
    return float((left * right).sum()) / size if size > 0 else 0.0


def _ahead(first: Array, second: Array, close: float) -> float:
    """Return by how much, at most, the share of `first` below a number is ahead of that of `second`."""
    below = np.arange(1, first.size + 1) / first.size
    return float(np.max(below - np.searchsorted(second, first + close, side="right") / second.size))
