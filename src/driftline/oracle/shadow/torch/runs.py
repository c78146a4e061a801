"""The kinds of runs of a tape: reference, noisy, with pushed decisions, and with open elements replaced."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from driftline.core.tensors import Array
from driftline.oracle.noise import Joint, NoiseSource, Products, has_subnormal, kept
from driftline.oracle.shadow.call import Call
from driftline.oracle.shadow.decisions import Decision, Order
from driftline.oracle.shadow.fused_additions import RecentProducts, layout, with_addend_first
from driftline.oracle.shadow.open_runs import Reading
from driftline.oracle.shadow.quantised import moved_by_quanta
from driftline.oracle.shadow.tape import TapeNode
from driftline.oracle.shadow.torch.decisions import index_result
from driftline.oracle.shadow.torch.einsum import EITHER_ORDER, EitherOrder
from driftline.oracle.shadow.torch.open import open_elements, replaced
from driftline.oracle.shadow.torch.readings import readings_of
from driftline.oracle.shadow.torch.rules import amplitudes, joint_errors, name_of, products_of

Alternative = int | Order | Reading


@dataclass
class TorchRunMemory:
    """Data that one run records and later runs use, keyed by the number of the operation on the tape."""

    sizes: dict[int, list[Array | None]] = field(default_factory=dict)  # sizes of rounding errors
    joint: dict[int, Joint | None] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)  # number of indices among which a choice is made
    # elements that the specification leaves open
    open: dict[int, dict[int, torch.Tensor]] = field(default_factory=dict)
    bound: set[tuple[int, int]] = field(default_factory=set)  # open results whose readings are known
    clauses: set[str] = field(default_factory=set)
    unruled: set[str] = field(default_factory=set)  # operations for which there is no rule
    subnormal: bool = False  # a rounded result is a subnormal number
    roundings: int = 0
    terms: int = 1

    def open_of(self, *, bound: bool) -> dict[int, dict[int, torch.Tensor]]:
        """Return the masks of open elements: with `bound`, those of results whose readings are known, else the
        others."""
        chosen = {
            number: {index: mask for index, mask in masks.items() if ((number, index) in self.bound) is bound}
            for number, masks in self.open.items()
        }
        return {number: masks for number, masks in chosen.items() if masks}


class TorchRun:
    """The base class of runs; subclasses override the hooks that the shadow calls at each operation."""

    def __init__(self, memory: TorchRunMemory) -> None:
        self.memory = memory

    def given(self, constant: torch.Tensor, size: Array) -> torch.Tensor:
        """Return an input or weight that the target rounds before it computes, with an error of the given size in noisy
        runs."""
        return constant

    def decide(self, decision: Decision, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments with which the operation decides in this run."""
        return args

    def leave_open(
        self, number: int, node: TapeNode, args: Any, kwargs: Any, results: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Return the results of an operation, with open elements recorded or replaced."""
        return results

    def requantise(self, result: torch.Tensor, quanta: int) -> torch.Tensor:
        """Return a quantised result, moved by up to `quanta` if this run does so."""
        return result

    def round(self, number: int, call: Call) -> tuple[Any, ...]:
        """Return the results of an operation, with rounding errors if this run makes any."""
        return call.results


class TorchMeasuringRun(TorchRun):
    """The reference run, which records how large an error each operation may make."""

    def __init__(self, memory: TorchRunMemory) -> None:
        super().__init__(memory)
        self._recent = RecentProducts(_memory_of)

    def decide(self, decision: Decision, args: tuple[Any, ...]) -> tuple[Any, ...]:
        decision.observe_reference(_floats(args))
        return args

    def leave_open(
        self, number: int, node: TapeNode, args: Any, kwargs: Any, results: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        for index, result in enumerate(results):
            found = open_elements(node.target, args, kwargs, result)
            if found:
                self.memory.clauses.add(found[0])
                self.memory.open.setdefault(number, {})[index] = found[1]
                if readings_of(node.target, args, kwargs, result):
                    self.memory.bound.add((number, index))
        return results

    def round(self, number: int, call: Call) -> tuple[Any, ...]:
        call = replace(call, products=products_of(call))
        sizes, known = amplitudes(call)
        self.memory.joint[number] = joint_errors(call)
        self.memory.subnormal |= any(
            has_subnormal(result.detach().numpy(), call.arithmetic, dtype)
            for result, dtype in zip(call.results, call.dtypes, strict=True)
            if dtype is not None
        )
        if call.products:
            self._recent.remember(call.results[0], call.products)
        elif name_of(call.target) in ("add", "sub") and call.argument("alpha") in (None, 1):
            sizes = [self._may_be_fused(number, call, sizes[0])]
        self.memory.sizes[number] = [kept(size) for size in sizes]
        self.memory.roundings += sum(size.size for size in self.memory.sizes[number] if size is not None)
        fed = [a.numel() for a in call.args if isinstance(a, torch.Tensor)]
        self.memory.terms = max(self.memory.terms, *fed, 1)
        if not known:
            self.memory.unruled.add(name_of(call.target))
        return call.results

    def _may_be_fused(self, number: int, call: Call, size: Array | None) -> Array | None:
        result, summands = call.results[0], call.args[:2]
        if size is None or not all(isinstance(one, torch.Tensor) for one in summands):
            return size
        first, second = summands
        sign = -1 if name_of(call.target) == "sub" else 1
        written = int(result is first)  # in place: the overwritten value follows from the result and the other summand
        if products := self._recent.behind(first, _memory_of(first, before=written)):
            size = self._begun(number, call, size, products, sign * second)
        if products := self._recent.behind(second):
            size = self._begun(number, call, size, products, result - sign * second if written else first)
        return size

    def _begun(self, number: int, call: Call, size: Array, products: Products, added: torch.Tensor) -> Array:
        result = call.results[0]
        given = (added.expand(result.shape).detach().numpy(), result.detach().numpy(), call.accumulator())
        size, self.memory.joint[number] = with_addend_first(products, *given, size, self.memory.joint[number])
        return size


class TorchNoisyRun(TorchRun):
    """A run with random errors of the sizes that the reference run recorded."""

    def __init__(self, memory: TorchRunMemory, noise: NoiseSource, *, other_order: bool = False) -> None:
        """With `other_order`, the results of the second order are taken where torch leaves the order open."""
        super().__init__(memory)
        self._noise = noise
        self._other_order = other_order

    def given(self, constant: torch.Tensor, size: Array) -> torch.Tensor:
        moved = torch.from_numpy(self._noise.narrow(constant.resolve_conj().resolve_neg().numpy(), size))
        return constant.clone().copy_(moved)  # same memory layout, on which views depend

    def decide(self, decision: Decision, args: tuple[Any, ...]) -> tuple[Any, ...]:
        decision.observe(_floats(args))
        return args

    def leave_open(
        self, number: int, node: TapeNode, args: Any, kwargs: Any, results: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        return (EitherOrder.of_other(*args),) if self._other_order and node.target is EITHER_ORDER else results

    def round(self, number: int, call: Call) -> tuple[Any, ...]:
        sizes, joint = self.memory.sizes[number], self.memory.joint[number]
        return tuple(
            result if size is None or dtype is None else _disturb(result, size, dtype, self._noise, joint, call.args)
            for result, size, dtype in zip(call.results, sizes, call.dtypes, strict=True)
        )


class TorchPushedRun(TorchRun):
    """A run in which the arguments of decisions are moved as far as is legal."""

    def __init__(self, memory: TorchRunMemory, run: int) -> None:
        super().__init__(memory)
        self._run = run
        self._random = np.random.default_rng(run)

    def decide(self, decision: Decision, args: tuple[Any, ...]) -> tuple[Any, ...]:
        moved = decision.pushed(_floats(args), self._run, self._random)
        return tuple(torch.from_numpy(moved[i]) if i in moved else arg for i, arg in enumerate(args))

    def requantise(self, result: torch.Tensor, quanta: int) -> torch.Tensor:
        return torch.from_numpy(moved_by_quanta(result.numpy(), quanta, self._run, self._random))


class TorchAlternativeRun(TorchRun):
    """A run in which open elements have other values."""

    def __init__(self, memory: TorchRunMemory, value: Alternative, masks: dict[int, dict[int, torch.Tensor]]) -> None:
        super().__init__(memory)
        self._value = value
        self._masks = masks
        self._turns = {number: turn for turn, number in enumerate(masks)}

    def leave_open(
        self, number: int, node: TapeNode, args: Any, kwargs: Any, results: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        changed = list(results)
        chosen = index_result(node.target, len(results))
        for index, mask in self._masks.get(number, {}).items():
            if not isinstance(results[index], torch.Tensor) or mask.shape != results[index].shape:
                continue
            places = self.memory.places.get(number, 0) if index == chosen else 0
            alternative: int | Array = 0
            if isinstance(self._value, Order):
                kind = torch.empty(0, dtype=results[index].dtype).numpy().dtype
                alternative = self._value.numbers(kind, tuple(mask.shape), self._turns[number], len(self._turns))
            elif isinstance(self._value, int):
                alternative = self._value
            if isinstance(self._value, Reading):
                known = readings_of(node.target, args, kwargs, results[index])
                other = self._value.at(self._turns[number]).of(known) if known else results[index]
                other = torch.where(mask, other, results[index])
            else:
                other = replaced(results[index], mask, alternative, places)
            if any(results[index] is a for a in args):
                results[index].copy_(other)
            else:
                changed[index] = other
        return tuple(changed)


def _memory_of(tensor: torch.Tensor, *, before: int = 0) -> tuple[Any, ...]:
    """Return a key for the memory, layout and version of a tensor: its current version, or `before` versions
    earlier."""
    return tensor.data_ptr(), tensor._version - before, *layout(tensor.shape, tensor.stride(), tensor.is_contiguous())


def _floats(args: tuple[Any, ...]) -> dict[int, Array]:
    return {
        position: value.detach().numpy()
        for position, value in enumerate(args)
        if isinstance(value, torch.Tensor) and value.is_floating_point()
    }


def _disturb(
    result: torch.Tensor, size: Array, dtype: str, noise: NoiseSource, joint: Joint | None, args: tuple[Any, ...]
) -> torch.Tensor:
    moved = torch.from_numpy(np.asarray(noise.disturb(result.detach().numpy(), size, dtype, joint)))
    if any(result is a for a in args):  # written in place: the caller and its views hold this very tensor
        result.copy_(moved)
        return result
    return moved
