"""A tape of a torch program: every ATen operation it ran, in order, and where the inputs of each came from.

A tape is recorded from one real run, below autograd, so it includes backward operations, views and in-place operations.
Recording costs microseconds per operation, where tracing a graph costs milliseconds. Compositions (softmax, layer norm,
...) are recorded as their parts, since each part may round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from driftline.oracle.shadow.call import schema_argument
from driftline.oracle.shadow.torch.einsum import EITHER_ORDER, has_other_order
from driftline.oracle.shadow.torch.foreign import OwnKernel, body_of, results_of, written_by
from driftline.oracle.shadow.torch.higher_order import is_higher_order, run_plainly
from driftline.oracle.shadow.torch.rules import is_foreign


@dataclass(frozen=True)
class Slot:
    """A reference to the value of an earlier operation: the operation's number and the result's number."""

    node: int
    index: int


@dataclass(frozen=True)
class Constant:
    """A reference to a tensor that no operation on the tape made: an input, a parameter, a captured value."""

    number: int


@dataclass
class TapeNode:
    """One recorded operation. `args` and `kwargs` hold slots and constants in place of tensors."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dtypes: tuple[torch.dtype | None, ...] = ()  # types in which the program stores the results
    recorded: tuple[torch.Tensor, ...] | None = None  # random draws, which must not be computed again
    terms: float = 0.0  # number of terms of the whole sum that this operation is part of, if its order is open


SMALL = 1 << 20  # bytes: constants up to this size are copied at once, larger ones before a write


@dataclass
class Tape:
    """A recorded run: its operations, constants and outputs."""

    nodes: list[TapeNode] = field(default_factory=list)
    constants: list[torch.Tensor] = field(default_factory=list)
    outputs: dict[str, Slot | Constant] = field(default_factory=dict)

    @property
    def draws(self) -> bool:
        """True if an operation drew random numbers."""
        return any(node.recorded is not None for node in self.nodes)

    def dtype(self, place: Slot | Constant) -> torch.dtype | None:
        """Return the type in which the program stores this value."""
        if isinstance(place, Constant):
            return self.constants[place.number].dtype
        return self.nodes[place.node].dtypes[place.index]

    def last_uses(self) -> dict[int, list[int]]:
        """Map each operation's number to the earlier operations whose results are not used after it."""
        last: dict[int, int] = {}
        for number, node in enumerate(self.nodes):
            for leaf in tree_leaves((node.args, node.kwargs)):
                if isinstance(leaf, Slot):
                    last[leaf.node] = number
        for place in self.outputs.values():
            if isinstance(place, Slot):
                last.pop(place.node, None)
        dying: dict[int, list[int]] = {}
        for node_number, use in last.items():
            dying.setdefault(use, []).append(node_number)
        return dying

    @property
    def writes(self) -> bool:
        """True if an operation works in place."""
        return any(node.target._schema.is_mutable for node in self.nodes)

    def written_after(self, number: int) -> bool:
        """True if a later operation writes to the memory of this operation's result."""
        memory = self._memory_of(Slot(number, 0))
        later = (node for node in self.nodes[number + 1 :] if node.target._schema.is_mutable)
        return any(self._memory_of(place) == memory for node in later for place in _places(node))

    def _memory_of(self, place: Slot | Constant) -> Slot | Constant:
        """Return the value whose memory `place` shares, or `place` itself if it is not a view."""
        while isinstance(place, Slot):
            node = self.nodes[place.node]
            base = node.args[0] if node.args else None
            if not (node.target.is_view or node.target._schema.is_mutable) or not isinstance(base, (Slot, Constant)):
                return place
            place = base
        return place


def _places(node: TapeNode) -> list[Slot | Constant]:
    return [leaf for leaf in tree_leaves((node.args, node.kwargs)) if isinstance(leaf, (Slot, Constant))]


class TapeRecorder(TorchDispatchMode):
    """Records torch operations while it is active."""

    supports_higher_order_operators = True

    def __init__(self, decompositions: dict[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self.tape = Tape()
        self._decompositions = decompositions
        self._by_id: dict[int, Slot | Constant] = {}
        self._by_memory: dict[tuple[Any, ...], Slot | Constant] = {}
        self._alive: list[torch.Tensor] = []  # keeps tensors alive, so that ids stay unique
        self._borrowed: dict[int, list[int]] = {}  # memory of large constants -> their numbers
        self.terms = 0.0

    def place(self, tensor: torch.Tensor) -> Slot | Constant:
        """Return where the tensor is on the tape, adding it as a constant if it is unknown. Tensors saved by autograd
        are new objects, so they are recognised by their memory."""
        found = self._by_id.get(id(tensor)) or self._by_memory.get(_memory(tensor))
        if found is None:
            found = Constant(len(self.tape.constants))
            self.tape.constants.append(self._kept(tensor.detach(), found.number))
            self._remember(tensor, found)
        return found

    def open_order(self, own: torch.Tensor, other: torch.Tensor) -> None:
        """Record that the value `own` may as well be `other`, which has been computed in another legal order."""
        self._append(TapeNode(EITHER_ORDER, *self._placed((own, other), {})), own)

    def _kept(self, tensor: torch.Tensor, number: int) -> torch.Tensor:
        """Return a copy of a constant, or the tensor itself if it is large: the weights of a large model are copied
        only before an operation writes to them."""
        if tensor.nbytes <= SMALL:
            return tensor.clone(memory_format=torch.preserve_format)
        self._borrowed.setdefault(tensor.untyped_storage().data_ptr(), []).append(number)
        return tensor

    def _save_borrowed(self, func: Any, args: Any, kwargs: Any) -> None:
        """Copy the large constants that this operation is about to write to."""
        if not self._borrowed or not func._schema.is_mutable:
            return
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
                for number in self._borrowed.pop(leaf.untyped_storage().data_ptr(), ()):
                    kept = self.tape.constants[number]
                    self.tape.constants[number] = kept.clone(memory_format=torch.preserve_format)

    def _remember(self, tensor: torch.Tensor, place: Slot | Constant) -> None:
        self._by_id[id(tensor)] = place
        self._by_memory[_memory(tensor)] = place
        self._alive.append(tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_higher_order(func):
            with self:
                return run_plainly(func, tuple(args), kwargs)
        if _has_no_values(args, kwargs):
            return func(*args, **kwargs)
        parts = self._decompositions.get(func) or body_of(func)
        if parts is not None:
            with self:
                result = parts(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if is_foreign(func):
            return self._run_kernel(func, args, kwargs)
        node = TapeNode(_DENSE.get(func, func), *self._placed(args, kwargs), terms=self.terms)
        self._save_borrowed(func, args, kwargs)
        result = func(*args, **kwargs)
        self._append(node, result)
        return result

    def _run_kernel(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Record a foreign operator as a function, followed by copies of the values that it writes to its arguments."""
        node = TapeNode(OwnKernel.of(func, args, kwargs), *self._placed(args, kwargs))
        written = written_by(func, args, kwargs)
        places = [self.place(tensor) for tensor in written]
        self._save_borrowed(func, args, kwargs)
        before = torch.get_rng_state()
        result = func(*args, **kwargs)
        results = results_of(result)
        values = [tensor.clone() for tensor in written]
        if not torch.equal(before, torch.get_rng_state()):
            node.recorded = tuple(r.detach().clone() for r in (*results, *values) if isinstance(r, torch.Tensor))
        self._append(node, (*results, *values))
        number = len(self.tape.nodes) - 1
        for index, (tensor, place) in enumerate(zip(written, places, strict=True), len(results)):
            copied = TapeNode(torch.ops.aten.copy_.default, (place, Slot(number, index)), {})
            self._append(copied, tensor)
        return result

    def _placed(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def place(value: Any) -> Any:
            return self.place(value) if isinstance(value, torch.Tensor) else value

        leaves, spec = tree_flatten((tuple(args), dict(kwargs)))
        placed_args, placed_kwargs = tree_unflatten([place(leaf) for leaf in leaves], spec)
        return placed_args, placed_kwargs

    def _append(self, node: TapeNode, result: Any) -> None:
        number = len(self.tape.nodes)
        results = result if isinstance(result, (tuple, list)) else (result,)
        node.dtypes = tuple(r.dtype if isinstance(r, torch.Tensor) else None for r in results)
        if _draws(node.target, node.args, node.kwargs):
            node.recorded = tuple(r.detach().clone() for r in results if isinstance(r, torch.Tensor))
        self.tape.nodes.append(node)
        for index, value in enumerate(results):
            if isinstance(value, torch.Tensor):
                self._remember(value, Slot(number, index))


# Zero tensors without memory are recorded as ordinary zeros.
_DENSE = {torch.ops.aten._efficientzerotensor.default: torch.ops.aten.zeros.default}


def _has_no_values(args: Any, kwargs: Any) -> bool:
    """True for an operation on meta or fake tensors, which computes only shapes."""
    leaves = tree_leaves((args, kwargs))
    return any(
        (isinstance(leaf, torch.Tensor) and (leaf.is_meta or isinstance(leaf, FakeTensor)))
        or (isinstance(leaf, torch.device) and leaf.type == "meta")
        for leaf in leaves
    )


def _draws(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True if the operation draws random numbers. A dropout outside of training draws none."""
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    trains = [schema_argument(target, args, kwargs, name) for name in ("train", "training")]
    return False not in trains and schema_argument(target, args, kwargs, "dropout_p") != 0.0


class OpenOrder(TorchFunctionMode):
    """Detects sums whose order torch leaves open, while a recorder is active.

    An einsum of three or more operands is defined as one sum over all contracted indices. torch computes it as a chain
    of products, which the tape shows, but a compiler may as well add up all terms in one loop, or multiply the operands
    in the other order that torch documents. That one is recorded too.
    """

    def __init__(self, recorder: TapeRecorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.functional.einsum and func is not torch.einsum:
            return func(*args, **(kwargs or {}))
        before = self._recorder.terms
        self._recorder.terms = contracted_terms(args)
        try:
            result = func(*args, **(kwargs or {}))
            self._record_other(func, args, result)
            return result
        finally:
            self._recorder.terms = before

    def _record_other(self, func: Any, args: tuple[Any, ...], result: Any) -> None:
        """Contract the operands from left to right too, where torch has done so in another order."""
        operands = operands_of(args)
        tensors = [each for each in (*operands, result) if isinstance(each, torch.Tensor)]
        if len(tensors) <= len(operands) or _has_no_values(tensors, {}) or not has_other_order(args[0], operands):
            return
        with torch.no_grad(), torch.backends.opt_einsum.flags(enabled=False):
            self._recorder.open_order(result, func(*args))


def operands_of(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the operands of an einsum whose equation is a text; none for other forms."""
    if not args or not isinstance(args[0], str):
        return ()
    return tuple(args[1]) if len(args) == 2 and isinstance(args[1], (tuple, list)) else args[1:]


def contracted_terms(args: tuple[Any, ...]) -> float:
    """Return the number of products that an einsum of three or more operands adds up, or 0 for other arguments."""
    operands = operands_of(args)
    if not operands:
        return 0.0
    left, arrow, right = args[0].replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(operands) < 3 or not arrow or "." in left:
        return 0.0
    sizes = {
        letter: size
        for letters, operand in zip(inputs, operands, strict=True)
        for letter, size in zip(letters, operand.shape, strict=True)
    }
    return float(math.prod(size for letter, size in sizes.items() if letter not in right))


def _memory(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (
        (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
        if tensor.numel()
        else (id(tensor),)
    )


def fill(value: Any, lookup: Callable[[Slot | Constant], Any]) -> Any:
    """Return the arguments with slots and constants replaced by `lookup`. Written by hand because this runs for every
    operation of every run, and a general tree map takes longer than a small operation."""
    kind = type(value)
    if kind is Slot or kind is Constant:
        return lookup(value)
    if kind is tuple or kind is list:
        return kind([fill(item, lookup) for item in value])
    if kind is dict:
        return {key: fill(item, lookup) for key, item in value.items()}
    return value
