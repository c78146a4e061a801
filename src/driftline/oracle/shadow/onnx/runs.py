"""The kinds of runs of an ONNX graph: reference, noisy, with pushed decisions, and with open elements replaced."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from driftline.core.tensors import Array
from driftline.oracle.noise import Joint, NoiseSource, has_subnormal, together
from driftline.oracle.shadow.call import Call
from driftline.oracle.shadow.decisions import Decision, Order
from driftline.oracle.shadow.fused_additions import RecentProducts, layout, with_addend_first
from driftline.oracle.shadow.onnx.affine_chains import AffineChains
from driftline.oracle.shadow.onnx.open import index_range, open_elements, replaced
from driftline.oracle.shadow.onnx.readings import readings_of
from driftline.oracle.shadow.onnx.rules import amplitudes, joint_errors
from driftline.oracle.shadow.onnx.sums import products_of, terms_of
from driftline.oracle.shadow.open_runs import Reading
from driftline.oracle.shadow.quantised import moved_by_quanta
from driftline.oracle.specification import has_clauses

Key = tuple[tuple[str, ...], int]
OnnxAlternative = int | str | Order | Reading


@dataclass
class OnnxRunMemory:
    """Data that one run records and later runs use."""

    types: dict[str, str]  # name of a value -> the float type in which the program stores it
    sizes: dict[Key, list[Array | None]] = field(default_factory=dict)  # sizes of rounding errors
    joint: dict[Key, Joint | None] = field(default_factory=dict)
    decisions: dict[Key, Decision] = field(default_factory=dict)
    open: dict[Key, dict[int, Array]] = field(default_factory=dict)  # elements that the specification leaves open
    # Open elements whose readings are known. Elements that rounding alone leaves open (a NaN from an overflow in
    # between, or from a number just outside a domain) are not included, because readings are those of the reference.
    bound: dict[Key, dict[int, Array]] = field(default_factory=dict)
    open_indices: int = 0  # number of indices among which an open choice is made
    clauses: set[str] = field(default_factory=set)
    unruled: set[str] = field(default_factory=set)  # operators for which there is no rule
    subnormal: bool = False  # a rounded result is a subnormal number
    roundings: int = 0
    terms: int = 1

    def note_open(
        self, key: Key, node: Any, inputs: list[Any], results: tuple[Any, ...], *, exactly: bool = False
    ) -> None:
        """Record the clauses that apply to a node for these values; `exactly` if the values are those of the reference
        run."""
        for index, result in enumerate(results):
            dtype = self.types.get(node.output[index], "")
            found = open_elements(node, inputs, result, dtype)
            bound = self.bound.get(key, {})
            if not exactly and index in bound and np.shape(result) == bound[index].shape:
                bound[index] = bound[index] & found[1] if found else np.zeros_like(bound[index])
            if not found:
                continue
            clause, mask = found
            known = self.open.setdefault(key, {}).get(index)
            if known is not None and known.shape != mask.shape:  # this run took another path than the reference
                continue
            self.clauses.add(clause)
            self.open_indices = max(self.open_indices, index_range(node, inputs))
            self.open[key][index] = mask if known is None else known | mask
            if exactly and readings_of(node, inputs, result, dtype):
                self.bound.setdefault(key, {})[index] = mask

    def open_of(self, *, bound: bool) -> dict[Key, dict[int, Array]]:
        """Return the masks of open elements: with `bound`, those whose readings are known, else the others."""
        chosen = self.bound
        if not bound:
            chosen = {
                key: {index: mask & ~self.bound.get(key, {}).get(index, np.False_) for index, mask in masks.items()}
                for key, masks in self.open.items()
            }
        chosen = {key: {index: mask for index, mask in masks.items() if mask.any()} for key, masks in chosen.items()}
        return {key: masks for key, masks in chosen.items() if masks}


class OnnxRun:
    """The base class of runs; subclasses override the hooks that the shadow calls at each node."""

    noise: NoiseSource | None = None

    def __init__(self, memory: OnnxRunMemory) -> None:
        self.memory = memory

    def given(self, doubles: dict[str, tuple[Array, Array]]) -> dict[str, Array]:
        """Return changed inputs and constants by name, from those that the target rounds and the size of their
        errors."""
        return {}

    def decide(self, decision: Decision, values: dict[int, Array], own: dict[int, Array]) -> dict[int, Array]:
        """Return the float arguments, by position, with which the operator decides in this run."""
        return values

    def leave_open(self, key: Key, node: Any, inputs: list[Any], results: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the results of a node, with open elements recorded or replaced."""
        return results

    def requantise(self, result: Array, quanta: int) -> Array:
        """Return a quantised result, moved by up to `quanta` if this run does so."""
        return result

    def round(self, key: Key, call: Call) -> tuple[Any, ...]:
        """Return the results of an operation, with rounding errors if this run makes any."""
        return call.results

    def count(self, roundings: int, terms: float) -> None:
        """Count `roundings` rounded results, each computed from at most `terms` numbers."""


class OnnxMeasuringRun(OnnxRun):
    """The reference run, which records how large an error each operator may make."""

    def __init__(self, memory: OnnxRunMemory, constants: Iterable[str] = ()) -> None:
        super().__init__(memory)
        self._recent = RecentProducts(_memory_of)
        self._chains = AffineChains(constants)

    def decide(self, decision: Decision, values: dict[int, Array], own: dict[int, Array]) -> dict[int, Array]:
        decision.observe_reference(values, own)
        return values

    def leave_open(self, key: Key, node: Any, inputs: list[Any], results: tuple[Any, ...]) -> tuple[Any, ...]:
        if has_clauses("onnx", str(node.op_type)):
            self.memory.note_open(key, node, inputs, results, exactly=True)
        return results

    def round(self, key: Key, call: Call) -> tuple[Any, ...]:
        call = replace(call, products=products_of(call))
        self.memory.sizes[key], known = amplitudes(call)
        self._may_be_folded(key, call)
        self.memory.joint[key] = joint_errors(call)
        self.memory.subnormal |= any(
            has_subnormal(result, call.arithmetic, dtype)
            for result, dtype in zip(call.results, call.dtypes, strict=True)
            if dtype is not None
        )
        if call.products:
            self._recent.remember(call.results[0], call.products)
        elif call.target.op_type in ("Add", "Sub"):
            self._may_be_fused(key, call)
        if not known:
            self.memory.unruled.add(str(call.target.op_type))
        self.count(sum(size.size for size in self.memory.sizes[key] if size is not None), terms_of(call))
        return call.results

    def _may_be_folded(self, key: Key, call: Call) -> None:
        terms, (size, *others) = (
            self._chains.folded_size(call.target, call.args, call.results[0]),
            self.memory.sizes[key],
        )
        if terms is not None and size is not None:
            self.memory.sizes[key] = [together(size, call.unit() * terms), *others]

    def _may_be_fused(self, key: Key, call: Call) -> None:
        (size,), result = self.memory.sizes[key], call.results[0]
        for summand, other in (call.args, reversed(call.args)):
            products = self._recent.behind(summand)
            if products and size is not None:
                added = -other if call.target.op_type == "Sub" and summand is call.args[0] else other
                given = (products, np.broadcast_to(added, result.shape), result, call.accumulator(), size)
                size, self.memory.joint[key] = with_addend_first(*given, self.memory.joint[key])
        self.memory.sizes[key] = [size]

    def count(self, roundings: int, terms: float) -> None:
        self.memory.roundings += roundings
        self.memory.terms = max(self.memory.terms, int(terms))


class OnnxNoisyRun(OnnxRun):
    """A run with random errors of the sizes that the reference run recorded."""

    def __init__(self, memory: OnnxRunMemory, noise: NoiseSource) -> None:
        super().__init__(memory)
        self.noise: NoiseSource = noise

    def given(self, doubles: dict[str, tuple[Array, Array]]) -> dict[str, Array]:
        return {name: self.noise.narrow(value, size) for name, (value, size) in doubles.items()}

    def decide(self, decision: Decision, values: dict[int, Array], own: dict[int, Array]) -> dict[int, Array]:
        decision.observe(values)
        return values

    def round(self, key: Key, call: Call) -> tuple[Any, ...]:
        sizes, joint = self.memory.sizes.get(key), self.memory.joint.get(key)
        if sizes is None or not _fit(sizes, call.results):  # this run took another path than the reference
            (sizes, _), joint = amplitudes(call), joint_errors(call)
        return tuple(
            result if size is None or dtype is None else np.asarray(self.noise.disturb(result, size, dtype, joint))
            for result, size, dtype in zip(call.results, sizes, call.dtypes, strict=True)
        )

    def leave_open(self, key: Key, node: Any, inputs: list[Any], results: tuple[Any, ...]) -> tuple[Any, ...]:
        """Record open elements in noisy runs too: a value rounded to the grid may overflow, so that a clause
        applies."""
        if has_clauses("onnx", str(node.op_type)):
            self.memory.note_open(key, node, inputs, results)
        return results


class OnnxPushedRun(OnnxRun):
    """A run in which the arguments of decisions are moved as far as is legal."""

    def __init__(self, memory: OnnxRunMemory, run: int) -> None:
        super().__init__(memory)
        self._number = run
        self._random = np.random.default_rng(run)

    def decide(self, decision: Decision, values: dict[int, Array], own: dict[int, Array]) -> dict[int, Array]:
        return decision.pushed(values, self._number, self._random)

    def requantise(self, result: Array, quanta: int) -> Array:
        return moved_by_quanta(result, quanta, self._number, self._random)


class OnnxAlternativeRun(OnnxRun):
    """A run in which open elements have other values."""

    def __init__(self, memory: OnnxRunMemory, value: OnnxAlternative, masks: dict[Key, dict[int, Array]]) -> None:
        super().__init__(memory)
        self._value = value
        self._masks = masks
        self._turns = {key: turn for turn, key in enumerate(masks)}

    def leave_open(self, key: Key, node: Any, inputs: list[Any], results: tuple[Any, ...]) -> tuple[Any, ...]:
        changed = list(results)
        for index, mask in self._masks.get(key, {}).items():
            if mask.shape != results[index].shape:
                continue
            alternative: int | str | Array | Reading
            if isinstance(self._value, Order):
                turn, turns = self._turns[key], len(self._turns)
                alternative = self._value.numbers(results[index].dtype, mask.shape, turn, turns)
            elif isinstance(self._value, Reading):
                alternative = self._value.at(self._turns[key])
            else:
                alternative = self._value
            dtype = self.memory.types.get(node.output[index], "")
            changed[index] = replaced(node, inputs, results[index], mask, alternative, dtype)
        return tuple(changed)


def _memory_of(array: Array) -> tuple[Any, ...]:
    """Return a key for the memory and layout of an array. Results of nodes are never written to."""
    return array.__array_interface__["data"][0], *layout(array.shape, array.strides, array.flags.c_contiguous)


def _fit(sizes: list[Array | None], results: tuple[Any, ...]) -> bool:
    return len(sizes) == len(results) and all(
        size is None or size.shape == result.shape for size, result in zip(sizes, results, strict=True)
    )
