"""Finds the plainest form in which a part still fails: one size, no gradient, ordinary numbers, the plainest dtype.

A bug is named after its plainest failure, so that it has one name wherever it is met. A part that fails in a plainer
form is reported in that form, after that form was checked.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from driftline.campaign.triage.part_screening import PART, PartScreening
from driftline.checking.batch import Screened
from driftline.checking.batch_requests import ProgramRequest
from driftline.core.identity import is_plain
from driftline.core.tensors import Array, Arrays, is_float, numpy_dtype
from driftline.core.verdict import VALUE_KINDS, Kind
from driftline.diagnose.reduce.generated import in_plainer_dtypes, with_casts
from driftline.diagnose.reduce.leaves import ArrayChange
from driftline.generate.graph import Graph
from driftline.generate.mutate import retyped

SCALES = (1.0, 16.0)  # standard deviations of ordinary numbers
PLAIN_FLOAT = "float32"
DRAWN = ("random", "specials", "random", "specials")  # strategies of other inputs, for a plainer dtype
_OF_NUMBERS = (Kind.WRONG_VALUE, Kind.BIAS, Kind.WRONG_NONFINITE, Kind.WRONG_ZERO_SIGN)


class PlainestForm:
    """Finds the plainest form of parts with generated graphs, by screening, until the deadline (`time.monotonic`)."""

    def __init__(self, screening: PartScreening, language: str, deadline: float) -> None:
        self._screening = screening
        self._language = language
        self._deadline = deadline

    def of(self, part: Screened) -> Screened:
        """Return the plainest form found of a part that still fails."""
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
        """Return the part called once, at the size at which it failed, if it fails in the same way."""
        if not (part.made and part.made.graph and part.made.graph.varying):
            return part
        alone = self._asked(graph, self._screening.inputs(part))
        return alone if same_failure(alone, part) else part

    def _untransformed(self, part: Screened, graph: Graph) -> Screened:
        """Return the part without gradient or transformation, on the same inputs, if it is still wrong."""
        if not (graph.grad or graph.transform):
            return part
        plain = self._asked(_function_alone(graph), self._screening.inputs(part))
        return plain if same_failure(plain, part) or as_wrong(plain, part) else part

    def _on_ordinary_numbers(self, part: Screened, graph: Graph) -> Screened:
        """Return the part on ordinary numbers if it is plainly wrong on all of them. If it is right on some, it is a
        bug of its own; but a gradient that is wrong about a NaN is a bug of a function that is wrong on any ordinary
        numbers."""
        if not may_be_plainer(part, with_gradient=graph.grad):
            return part
        given, plain = self._screening.inputs(part), _function_alone(graph)
        requests = [
            self._screening.on_inputs(plain, {name: plain_numbers(scale, name)(array) for name, array in given.items()})
            for scale in SCALES
        ]
        results = self._screening.screen(requests)
        wrong = list(filter(is_plainly_wrong, results))
        enough = 1 if graph.grad and not is_plainly_wrong(part) else len(SCALES)
        return wrong[0] if len(wrong) >= enough else part

    def _in_plainer_dtype(self, part: Screened, graph: Graph) -> Screened:
        for _ in range(2):  # once for floats, once for integers
            given, forms = self._screening.inputs(part), []
            for changed, old, new in in_plainer_dtypes(graph):
                if (plain := retyped(changed, self._language)) is not None:
                    forms.append((plain, old, new))
            answers = self._screening.screen(
                [self._screening.on_inputs(plain, cast(given, old, new)) for plain, old, new in forms]
            )
            same = next((answer for answer in answers if in_same_way(answer, part)), None)
            if same is None and is_plainly_wrong(part):
                answers = self._screening.screen([drawn(replace(PART, graph=plain)) for plain, _, _ in forms])
                same = plainly_wrong_alone(self._screening, answers)
            again = self._screening.graph_as_it_failed(same) if same else None
            if same is None or again is None:
                return part
            part, graph = same, again
        return part

    def _in_floats(self, part: Screened, graph: Graph) -> Screened:
        """Return the part with floats instead of integers, masks or complex numbers, if that fails too."""
        if not may_be_floats(part, [leaf.type.dtype for leaf in graph.leaves]):
            return part
        given = self._screening.inputs(part)
        for numbers, floats in self._of_floats(graph):
            floated = {name for at, name in zip(graph.inputs, given, strict=True) if at in numbers}
            modest = {name: small(array) if name in floated else array for name, array in given.items()}
            again = self._screening.again(part, modest)
            as_given, of_small, small_floats = self._screening.screen(
                [
                    self._screening.on_inputs(floats, _as_floats(given, floated)),
                    again,
                    self._screening.on_inputs(floats, _as_floats(modest, floated)),
                ]
            )
            if has_the_same_structure(as_given, part):
                return as_given
            if is_plainly_wrong(of_small) and is_plainly_wrong(small_floats):
                return small_floats
            if is_plainly_wrong(part) and same_numbers(self._screening, as_given, self._screening.again(part), part):
                return as_given
        return part

    def _of_floats(self, graph: Graph) -> Iterator[tuple[Collection[int], Graph]]:
        """Yield the program with floats at some leaves, with the set of these leaves."""
        for numbers in of_floats([leaf.type.dtype for leaf in graph.leaves]):
            leaves = tuple(
                replace(leaf, type=leaf.type.with_dtype(PLAIN_FLOAT)) if at in numbers else leaf
                for at, leaf in enumerate(graph.leaves)
            )
            old = graph.leaves[min(numbers)].type.dtype
            for form in with_casts(replace(graph, leaves=leaves), old, PLAIN_FLOAT):
                if (floats := retyped(form, self._language)) is not None:
                    yield numbers, floats

    def _asked(self, graph: Graph, arrays: Arrays) -> Screened:
        return self._screening.screen([self._screening.on_inputs(graph, arrays)])[0]


def _function_alone(graph: Graph) -> Graph:
    return replace(graph, grad=False, transform="")


def cast(arrays: Arrays, old: str, new: str) -> Arrays:
    with np.errstate(all="ignore"):
        return {n: a.astype(numpy_dtype(new)) if a.dtype.name == old else a for n, a in arrays.items()}


def _as_floats(arrays: Arrays, names: Collection[str]) -> Arrays:
    return {name: in_floats(array) if name in names else array for name, array in arrays.items()}


def _as_precise(result: Screened, part: Screened) -> bool:
    """True if both results, or neither, are explained by reduced precision."""
    return bool(result.evidence.policies) == bool(part.evidence.policies)


def same_failure(result: Screened, part: Screened) -> bool:
    """True if a result fails in the same way as the part."""
    if result.judgement != "fail" or not _as_precise(result, part):
        return False
    if result.kind != part.kind:  # a drift and a wrong value have one name
        return is_plainly_wrong(result) and is_plainly_wrong(part)
    return part.kind != Kind.ERROR or result.evidence.message == part.evidence.message


def as_wrong(result: Screened, part: Screened) -> bool:
    """True if the function itself gives any wrong result where its gradient is wrong."""
    both = result.kind in VALUE_KINDS and part.kind in VALUE_KINDS
    return result.judgement == "fail" and both and bool(result.evidence.policies) <= bool(part.evidence.policies)


def in_same_way(result: Screened, part: Screened) -> bool:
    """True if the result in a plainer dtype fails as the part does. A part that is only imprecise in a narrow dtype,
    and plainly wrong in a wider one on the same numbers, is the bug of the wider dtype."""
    imprecise = part.kind in _OF_NUMBERS and bool(part.evidence.policies)
    return same_failure(result, part) or (imprecise and is_plainly_wrong(result))


def drawn(request: ProgramRequest) -> ProgramRequest:
    """Return the request with newly drawn inputs. The failing inputs may be outside the range of a plainer dtype, or no
    ties there."""
    return replace(request, inputs="", strategies=DRAWN, seed="plainer")


def plainly_wrong_alone(screening: PartScreening, answers: Sequence[Screened]) -> Screened | None:
    """Return the first plainly wrong answer if it is also wrong in a first call, else None: an effect of an earlier
    call is another bug."""
    wrong = next(filter(is_plainly_wrong, answers), None)
    again = screening.screen([screening.again(wrong)])[0] if wrong else None
    return again if again and is_plainly_wrong(again) else None


def is_plainly_wrong(result: Screened) -> bool:
    """True if numbers are wrong in a way that a bug's name does not mention."""
    return result.judgement == "fail" and bool(result.kind) and is_plain(Kind(result.kind), result.evidence)


def may_be_plainer(part: Screened, *, with_gradient: bool = False) -> bool:
    """True if a part is worth trying on ordinary numbers. A wrong shape or dtype shows on any numbers."""
    wrong = part.kind in _OF_NUMBERS and not part.evidence.policies
    return wrong and (with_gradient or not is_plainly_wrong(part))


def may_be_floats(part: Screened, dtypes: Sequence[str]) -> bool:
    """True if a part is wrong on integers, masks or complex numbers alone, or returns other results than expected."""
    wrong = part.kind in (*_OF_NUMBERS, Kind.WRONG_STRUCTURE) and not part.evidence.policies
    return wrong and bool(dtypes) and not any(map(is_float, dtypes))


def of_floats(dtypes: Sequence[str]) -> list[set[int]]:
    """Return the sets of operands to try as floats: all except masks beside numbers, or only the first, since others
    may be indices."""
    numbers = {at for at, dtype in enumerate(dtypes) if dtype != "bool"} or set(range(len(dtypes)))
    return [numbers] if len(numbers) < 2 else [numbers, {min(numbers)}]


def same_numbers(screening: PartScreening, result: Screened, again: ProgramRequest, part: Screened) -> bool:
    """True if a result fails as the part does, with the same numbers that the part returns when it is run `again`."""
    if not same_failure(result, part):
        return False
    mine, other = screening.first_results([screening.again(result), again])
    if mine is None or other is None or len(mine) != len(other):
        return False
    return all(
        one.shape == two.shape and np.array_equal(one.astype(np.float64), two.astype(np.float64), equal_nan=True)
        for one, two in zip(mine, other, strict=True)
    )


def has_the_same_structure(result: Screened, part: Screened) -> bool:
    """True if the part and the result lack the same outputs, and have the same unexpected ones."""
    if part.kind != Kind.WRONG_STRUCTURE or not same_failure(result, part):
        return False
    mine, other = result.evidence, part.evidence
    return (mine.wanted, mine.came) == (other.wanted, other.came)


def small(array: Array) -> Array:
    """Return small integers with the same signs and zeros, since sums and products of large ones differ in floats.
    Other arrays are returned unchanged."""
    if not np.issubdtype(array.dtype, np.integer):
        return array
    digit = np.fmod(array, array.dtype.type(7))
    return np.where(digit == 0, np.sign(array) * array.dtype.type(6), digit)


def in_floats(array: Array) -> Array:
    """Return an array as floats; of complex numbers, the real part."""
    return (array.real if np.iscomplexobj(array) else array).astype(PLAIN_FLOAT)


def plain_numbers(scale: float, name: str) -> ArrayChange:
    """Return a function that replaces floats by normal numbers with standard deviation `scale`; integers and masks
    stay. The same name gives the same numbers."""
    drawn = np.random.default_rng(zlib.crc32(name.encode()))

    def change(array: Array) -> Array:
        complex_ = np.iscomplexobj(array)
        if not (complex_ or is_float(array.dtype.name)):
            return array
        parts = [drawn.normal(scale=scale, size=array.shape) for _ in range(1 + complex_)]
        numbers = parts[0] + 1j * parts[1] if complex_ else parts[0]
        return np.asarray(numbers).astype(array.dtype)

    return change
