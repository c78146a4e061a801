"""The plainest form in which a part still fails: one size, no gradient, ordinary numbers, the plainest dtype.

A bug goes by its plainest failure, so that it has one name wherever it is met. A part that fails in a plainer way is
reported in that way, and what is reported was checked: nothing is concluded from a likeness.
"""

from __future__ import annotations

import time
import zlib
from dataclasses import replace

import numpy as np

from driftline.campaign.part_screening import PartScreening
from driftline.checking.batch import Screened
from driftline.checking.batch_requests import ProgramRequest
from driftline.core.identity import is_plain
from driftline.core.tensors import Array, Arrays, is_float, numpy_dtype
from driftline.core.verdict import Kind
from driftline.diagnose.reduce.generated import in_plainer_dtypes
from driftline.diagnose.reduce.leaves import ArrayChange
from driftline.generate.graph import Graph
from driftline.generate.mutate import retyped

SCALES = (1.0, 16.0)  # of ordinary numbers
PLAIN_FLOAT = "float32"
_OF_NUMBERS = (Kind.WRONG_VALUE, Kind.BIAS, Kind.WRONG_NONFINITE, Kind.WRONG_ZERO_SIGN)


class PlainestForm:
    """Finds it for parts that are graphs of ours, by screening, until the deadline (`time.monotonic`)."""

    def __init__(self, screening: PartScreening, language: str, deadline: float) -> None:
        self._screening = screening
        self._language = language
        self._deadline = deadline

    def of(self, part: Screened) -> Screened:
        steps = (
            self._at_one_size,
            self._untransformed,
            self._on_ordinary_numbers,
            self._in_plainer_dtype,
            self._in_floats,
        )
        for simpler in steps:
            graph = self._screening.graph_as_it_failed(part)
            if graph is None or time.monotonic() > self._deadline:
                return part
            part = simpler(part, graph)
        return part

    def _at_one_size(self, part: Screened, graph: Graph) -> Screened:
        """Called once, at the size at which it failed."""
        if not (part.made and part.made.graph and part.made.graph.varying):
            return part
        alone = self._asked(graph, self._screening.inputs(part))
        return alone if same_failure(alone, part) else part

    def _untransformed(self, part: Screened, graph: Graph) -> Screened:
        """Without its gradients or its transformation, on the same inputs."""
        if not (graph.grad or graph.transform):
            return part
        plain = self._asked(_function_alone(graph), self._screening.inputs(part))
        return plain if same_failure(plain, part) else part

    def _on_ordinary_numbers(self, part: Screened, graph: Graph) -> Screened:
        """What shows in a NaN, a tie or a gradient says nothing more where all ordinary numbers come out wrong. Where
        some come out right, it is a bug of its own."""
        if not may_be_plainer(part, with_gradient=graph.grad):
            return part
        given, plain = self._screening.inputs(part), _function_alone(graph)
        requests = [
            self._screening.on_inputs(plain, {name: plain_numbers(scale, name)(array) for name, array in given.items()})
            for scale in SCALES
        ]
        results = self._screening.screen(requests)
        return results[0] if all(map(is_plainly_wrong, results)) else part

    def _in_plainer_dtype(self, part: Screened, graph: Graph) -> Screened:
        for _ in range(2):  # once for floats, once for integers
            options: list[ProgramRequest] = []
            for changed, old, new in in_plainer_dtypes(graph):
                if (plain := retyped(changed, self._language)) is not None:
                    options.append(self._screening.on_inputs(plain, _cast(self._screening.inputs(part), old, new)))
            results = self._screening.screen(options)
            same = next((result for result in results if same_failure(result, part)), None)
            again = self._screening.graph_as_it_failed(same) if same else None
            if same is None or again is None:
                return part
            part, graph = same, again
        return part

    def _in_floats(self, part: Screened, graph: Graph) -> Screened:
        """A program of integers, where one of floats gives the same wrong numbers."""
        if not may_be_floats(part, [leaf.type.dtype for leaf in graph.leaves]):
            return part
        leaves = tuple(replace(leaf, type=leaf.type.with_dtype(PLAIN_FLOAT)) for leaf in graph.leaves)
        floats = retyped(replace(graph, leaves=leaves), self._language)
        if floats is None:
            return part
        given = self._screening.inputs(part)
        for numbers in (given, {name: small(array) for name, array in given.items()}):
            found = self._asked(floats, {name: array.astype(PLAIN_FLOAT) for name, array in numbers.items()})
            again = self._screening.again(part, numbers)
            fails = numbers is given or same_failure(self._screening.screen([again])[0], part)
            if fails and same_numbers(self._screening, found, again, part):
                return found
        return part

    def _asked(self, graph: Graph, arrays: Arrays) -> Screened:
        return self._screening.screen([self._screening.on_inputs(graph, arrays)])[0]


def _function_alone(graph: Graph) -> Graph:
    return replace(graph, grad=False, transform="")


def _cast(arrays: Arrays, old: str, new: str) -> Arrays:
    with np.errstate(all="ignore"):
        return {n: a.astype(numpy_dtype(new)) if a.dtype.name == old else a for n, a in arrays.items()}


def _as_precise(result: Screened, part: Screened) -> bool:
    """Less precision does not stand for a wrong result, nor the other way round."""
    return bool(result.evidence.policies) == bool(part.evidence.policies)


def same_failure(result: Screened, part: Screened) -> bool:
    if result.judgement != "fail" or result.kind != part.kind or not _as_precise(result, part):
        return False
    return part.kind != Kind.ERROR or result.evidence.message == part.evidence.message


def is_plainly_wrong(result: Screened) -> bool:
    """Wrong numbers, and nothing that a bug's name would tell of them."""
    return result.judgement == "fail" and bool(result.kind) and is_plain(Kind(result.kind), result.evidence)


def may_be_plainer(part: Screened, *, with_gradient: bool = False) -> bool:
    """Is it worth trying on ordinary numbers? What has a wrong shape or dtype has it on any."""
    wrong = part.kind in _OF_NUMBERS and not part.evidence.policies
    return wrong and (with_gradient or not is_plainly_wrong(part))


def may_be_floats(part: Screened, dtypes: list[str]) -> bool:
    """Is it a wrong result of integers alone?"""
    integers = all(np.issubdtype(numpy_dtype(name), np.integer) for name in dtypes if not is_float(name))
    return is_plainly_wrong(part) and bool(dtypes) and integers and not any(map(is_float, dtypes))


def same_numbers(screening: PartScreening, result: Screened, again: ProgramRequest, part: Screened) -> bool:
    """Does it fail in the same way, and with the very same numbers as the part gives when it is run `again`?"""
    if not same_failure(result, part):
        return False
    mine, other = screening.first_results([screening.again(result), again])
    if mine is None or other is None or len(mine) != len(other):
        return False
    return all(
        one.shape == two.shape and np.array_equal(one.astype(np.float64), two.astype(np.float64), equal_nan=True)
        for one, two in zip(mine, other, strict=True)
    )


def small(array: Array) -> Array:
    """Integers of few digits: with large ones, sums and products are other numbers in floats."""
    return array % array.dtype.type(7)


def plain_numbers(scale: float, name: str) -> ArrayChange:
    """Floats become numbers around zero, of that size; integers and masks stay what they are. One name, the same
    numbers each time."""
    drawn = np.random.default_rng(zlib.crc32(name.encode()))

    def change(array: Array) -> Array:
        complex_ = np.iscomplexobj(array)
        if not (complex_ or is_float(array.dtype.name)):
            return array
        parts = [drawn.normal(scale=scale, size=array.shape) for _ in range(1 + complex_)]
        numbers = parts[0] + 1j * parts[1] if complex_ else parts[0]
        return np.asarray(numbers).astype(array.dtype)

    return change
