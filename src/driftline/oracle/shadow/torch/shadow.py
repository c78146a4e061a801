"""The shadow of a torch program: its tape, executed again in float64 with and without rounding errors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch

from driftline.core.tensors import Array, Arrays, numpy_dtype
from driftline.oracle.arithmetic import IEEE, Arithmetic
from driftline.oracle.noise import NoiseSource, narrowed
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.shadow.call import Call, schema_argument
from driftline.oracle.shadow.decisions import (
    FEW_ORDERS,
    ORDERS,
    Decision,
    choice_problem,
    choice_runs,
    touched,
)
from driftline.oracle.shadow.open_runs import READINGS, OpenRuns
from driftline.oracle.shadow.quantised import pushed_runs
from driftline.oracle.shadow.tape import SMALL, Constant, OpenOrder, Slot, Tape, TapeNode, TapeRecorder, fill
from driftline.oracle.shadow.torch.decisions import decides, edge_of, index_result, takes_first_of_equals
from driftline.oracle.shadow.torch.foreign import OwnKernel
from driftline.oracle.shadow.torch.higher_order import call_uncompiled
from driftline.oracle.shadow.torch.limits import with_vanished_limits
from driftline.oracle.shadow.torch.open import ALTERNATIVES
from driftline.oracle.shadow.torch.parts import decompositions
from driftline.oracle.shadow.torch.quantised import (
    interpolations_of_integers,
    quantising_nodes,
    works_on_quantised,
)
from driftline.oracle.shadow.torch.rules import EXPONENTIAL, is_cast, is_exact, is_rounded_once, name_of
from driftline.oracle.shadow.torch.runs import (
    Alternative,
    TorchAlternativeRun,
    TorchMeasuringRun,
    TorchNoisyRun,
    TorchPushedRun,
    TorchRun,
    TorchRunMemory,
)

_LIFT = {torch.complex64: torch.complex128}
_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
_SMALL = (torch.float32, torch.float16, torch.bfloat16, *_FLOAT8)
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


@dataclass(frozen=True)
class _Plan:
    """The properties of an operation that every run needs: its arguments with float64 in place of small types, whether
    it is exact, and the names of the float types of its results."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    exact: bool
    names: tuple[str | None, ...]


@contextlib.contextmanager
def _doubles_by_default() -> Iterator[None]:
    """A context in which operations that make floats from other values (constants, quotients of integers) make
    float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class TorchShadow:
    """Executes a tape once as the reference, then with the rounding errors of legal implementations, and, where
    rounding can decide something, with the deciding values pushed as far as is legal."""

    def __init__(self, tape: Tape, arithmetic: Arithmetic = IEEE) -> None:
        self._tape = tape
        self._arithmetic = arithmetic
        self._writes = tape.writes
        # Large weights are converted to doubles at each use and not kept.
        self._constants = [None if self._is_lazy(tensor) else _lifted(tensor) for tensor in tape.constants]
        self._doubles = self._narrowed()
        self._plans = [self._planned(node) for node in tape.nodes]
        self._memory = TorchRunMemory()
        self._decisions = {
            n: Decision(edge=edge_of(node.target, node.args))
            for n, node in enumerate(tape.nodes)
            if _is_decision(node) and not works_on_quantised(tape, node)
        }
        self._forced: dict[int, torch.Tensor] = {}
        self._choices: dict[int, torch.Tensor] = {}  # choices of the reference run
        self._tossed: dict[int, Array] = {}  # choices that change when they are pushed
        self._shapes: dict[int, list[tuple[int, ...]]] = {}  # shapes of the results of deciding operations
        self._settled: set[int] = set()  # operations whose results are exact
        self._last_use = tape.last_uses()
        self._quantising = quantising_nodes(tape)
        self._by_axis = interpolations_of_integers(tape)

    @property
    def draws(self) -> bool:
        return self._tape.draws

    @property
    def unruled(self) -> set[str]:
        return self._memory.unruled

    @property
    def roundings(self) -> int:
        return self._memory.roundings

    @property
    def terms(self) -> int:
        return self._memory.terms

    @property
    def uses(self) -> set[str]:
        nodes = self._tape.nodes
        types = [*(c.dtype for c in self._tape.constants), *(dtype for node in nodes for dtype in node.dtypes)]
        found = {name for name in map(_float_name, types) if name}
        if any(name_of(node.target) in EXPONENTIAL for node in nodes):
            found.add("exponential")
        if self._memory.subnormal:
            found.add("subnormal")
        return found | ({"quantised"} if self._quantising else set())

    def reference(self) -> Arrays:
        self._memory.roundings = 0
        return self._play(TorchMeasuringRun(self._memory))

    def sample(self, number: int) -> Arrays:
        """Execute the tape with random errors, whose sizes are those of the reference run, and return the outputs."""
        noise = NoiseSource(number, self._arithmetic, on_grid=number % 2 == 0)
        return self._play(TorchNoisyRun(self._memory, noise, other_order=number % 4 in (1, 2)))

    def is_deciding(self) -> bool:
        """True if rounding can change a step or a choice. Known only after some samples."""
        requantised = self._arithmetic.requantise and self._quantising
        return bool(requantised or self._by_axis) or any(decision.open for decision in self._decisions.values())

    def pushed(self) -> list[Arrays]:
        """Return the outputs of runs in which every step and choice is pushed, or an empty list if no decision is
        open."""
        if not self.is_deciding():
            return []
        return [self._play(TorchPushedRun(self._memory, run)) for run in pushed_runs(self._arithmetic)]

    def alternatives(self) -> OpenRuns:
        """Execute runs in which open elements have other values; return their outputs and the clauses that apply."""
        memory = self._memory
        chooses = any(index_result(node.target, len(node.dtypes)) is not None for node in self._tape.nodes)
        values: tuple[Alternative, ...] = (*ALTERNATIVES, *(ORDERS if chooses else FEW_ORDERS))
        bound, free = (self._changed(values, memory.open_of(bound=is_bound)) for is_bound in (True, False))
        readings = self._changed(READINGS, memory.open_of(bound=True))
        wavering = self._wavering()
        if not wavering:
            return OpenRuns(free, bound, readings, frozenset(memory.clauses))
        choosing = self.choice_outputs()  # these outputs are judged as choices
        most = max((memory.places.get(number, 0) for number in wavering), default=0)
        for changed in self._changed((*ALTERNATIVES, *choice_runs(most)), wavering):
            free.append({name: array for name, array in changed.items() if name not in choosing})
        return OpenRuns(free, bound, readings, frozenset({*memory.clauses, "rounding-decides"}))

    def _changed(self, values: Iterable[Alternative], masks: dict[int, dict[int, torch.Tensor]]) -> list[Arrays]:
        """Return the outputs of one run per value, with the masked elements replaced by that value; empty without
        masks."""
        return [self._play(TorchAlternativeRun(self._memory, value, masks)) for value in values if masks]

    def _wavering(self) -> dict[int, dict[int, torch.Tensor]]:
        """Return masks of the elements that rounding changes by a jump: choices that change when pushed, and elements
        that are finite or not."""
        masks: dict[int, dict[int, Array]] = {}
        for number, mask in self._tossed.items():
            index = index_result(self._tape.nodes[number].target, len(self._shapes[number])) or 0
            masks[number] = {index: mask}
        for number, decision in self._decisions.items():
            for argument in decision.arguments.values():
                if np.any(argument.unsettled):
                    touching = touched(np.asarray(argument.unsettled), self._axis(number), self._shapes[number])
                    found = masks.setdefault(number, {})
                    found.update({index: mask | found.get(index, False) for index, mask in enumerate(touching)})
        return {n: {i: torch.from_numpy(np.array(mask)) for i, mask in found.items()} for n, found in masks.items()}

    def _axis(self, number: int) -> int | None:
        """Return the axis along which an operation chooses, or `None` for a step."""
        node = self._tape.nodes[number]
        if index_result(node.target, len(node.dtypes)) is None:
            return None
        axis: int | None = schema_argument(node.target, node.args, node.kwargs, "dim")
        return axis

    def force(self, outputs: Arrays) -> dict[str, str]:
        """Adopt the choices that a compiler returned. For each output that is a choice, return why it is not valid, or
        an empty string; valid choices apply to all later runs. Needs a reference run and samples."""
        problems: dict[str, str] = {}
        for name, place in self._tape.outputs.items():
            number = self._choice_behind(place)
            if number is None or name not in outputs:
                continue
            expected = self._choices[number]
            chosen = torch.from_numpy(np.array(outputs[name])).to(expected.dtype)
            if chosen.numel() != expected.numel():
                problems[name] = "it has another number of elements"
                continue
            chosen = chosen.reshape(expected.shape)
            node = self._tape.nodes[number]
            dimension = schema_argument(node.target, node.args, node.kwargs, "dim")
            problems[name] = choice_problem(
                self._decisions[number].arguments.get(0),
                dimension,
                expected.numpy(),
                chosen.numpy(),
                first_wins=takes_first_of_equals(node.target, node.args, node.kwargs),
            )
            if not problems[name]:
                self._forced[number] = chosen
        return problems

    def choice_outputs(self) -> set[str]:
        return {name for name, place in self._tape.outputs.items() if self._choice_behind(place) is not None}

    def _choice_behind(self, place: Slot | Constant) -> int | None:
        """Return the number of the choosing operation whose indices this value holds, possibly reshaped since, or
        `None`."""
        while isinstance(place, Slot):
            node = self._tape.nodes[place.node]
            if index_result(node.target, len(node.dtypes)) == place.index:
                return place.node
            movable = node.target.is_view or is_cast(node.target) or name_of(node.target) == "clone"
            if not movable or not isinstance(node.args[0], (Slot, Constant)):
                return None
            place = node.args[0]
        return None

    def _play(self, run: TorchRun) -> Arrays:
        constants = [c if c is None else c.clone() for c in self._constants] if self._writes else [*self._constants]
        for number, size in self._doubles.items():
            constants[number] = run.given(constants[number], size)
        results: list[tuple[Any, ...]] = []

        def lookup(place: Slot | Constant) -> torch.Tensor:
            if isinstance(place, Slot):
                value: torch.Tensor = results[place.node][place.index]
                return value
            kept = constants[place.number]
            return _lifted(self._tape.constants[place.number]) if kept is None else kept

        with torch.no_grad(), _doubles_by_default():
            for number, node in enumerate(self._tape.nodes):
                results.append(self._step(number, node, lookup, run))
                for done in self._last_use.get(number, ()):  # free the intermediate results of large models
                    results[done] = ()
            return {name: _array(lookup(place)) for name, place in self._tape.outputs.items()}

    def _narrowed(self) -> dict[int, Array]:
        """Return the errors of inputs and weights that the target rounds before it computes, by constant number. Large
        weights are left out: the errors of sums over many terms cover them."""
        sizes = {
            number: narrowed(_array(kept), self._arithmetic, _float_name(self._tape.constants[number].dtype) or "")
            for number, kept in enumerate(self._constants)
            if kept is not None
        }
        return {number: size for number, size in sizes.items() if size is not None}

    def _is_lazy(self, tensor: torch.Tensor) -> bool:
        return not self._writes and tensor.nbytes > SMALL

    def _step(self, number: int, node: TapeNode, lookup: Any, run: TorchRun) -> tuple[Any, ...]:
        if node.recorded is not None:
            return tuple(_lifted(tensor) for tensor in node.recorded)
        plan = self._plans[number]
        args, kwargs = fill(plan.args, lookup), fill(plan.kwargs, lookup)
        decision = self._decisions.get(number)
        plain = args
        if decision:
            args = run.decide(decision, args)
        try:
            result = node.target(*args, **kwargs)
        except Exception as error:
            # The float64 kernel may have laid out its result in another order, where a view must be a copy.
            if node.target is torch.ops.aten.view.default and not self._tape.written_after(number):
                return (args[0].reshape(args[1]),)
            raise NoExactReference(f"{node.target} does not run in float64 ({type(error).__name__})") from error
        results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        results = tuple(_as_tensor(made, dtype) for made, dtype in zip(results, node.dtypes, strict=False))
        if number in self._by_axis:
            results = (run.requantise(results[0], 1), *results[1:])
        if number in self._quantising:
            results = (run.requantise(results[0], self._arithmetic.requantise), *results[1:])
        if decision:
            if isinstance(run, TorchMeasuringRun):
                self._shapes[number] = [tuple(getattr(made, "shape", ())) for made in results]
            results = self._chosen(number, node, plain, results, run)
        results = run.leave_open(number, node, args, kwargs, results)
        if isinstance(run, TorchMeasuringRun):
            self._settle(number, node, plan, args, results)
        if plan.exact or number in self._settled:
            return results
        if small := next((made.dtype for made in results if getattr(made, "dtype", None) in _FLOAT8), None):
            raise NoExactReference(f"{node.target} computes in {small}")
        return run.round(number, Call(node.target, args, kwargs, results, plan.names, self._arithmetic, node.terms))

    def _settle(
        self, number: int, node: TapeNode, plan: _Plan, args: tuple[Any, ...], results: tuple[Any, ...]
    ) -> None:
        """Record whether the results are exact: all arguments are exact, and no result needs rounding.

        Every implementation returns these very numbers, so ties among them are ties on every target. Constants count
        too: 0.3 is itself rounded, so 10 * 0.3 is 3 in float64, but not in a fused multiply-add of float32.
        """
        self._settled.discard(number)
        places: list[Slot | Constant] = []
        fill((plan.args, plan.kwargs), places.append)
        moved = any(isinstance(place, Slot) and place.node not in self._settled for place in places)
        if moved or self._writes or number in self._decisions or self._arithmetic != IEEE:
            return
        if plan.exact or (
            is_rounded_once(node.target, plan.args, plan.kwargs)
            and _fit(results, plan.names)
            and all(_representable(argument, plan.names[0]) for argument in args)
        ):
            self._settled.add(number)

    def _chosen(
        self, number: int, node: TapeNode, args: Any, results: tuple[Any, ...], run: TorchRun
    ) -> tuple[Any, ...]:
        """Return the results with the compiler's choice in place of the shadow's own, if it was found valid."""
        index = index_result(node.target, len(results))
        if index is None:
            return results
        chosen = self._forced.get(number, results[index])
        if isinstance(run, TorchMeasuringRun):
            self._choices[number] = results[index]
            axis = self._axis(number)
            self._memory.places[number] = args[0].numel() if axis is None or not args[0].dim() else args[0].shape[axis]
        elif isinstance(run, TorchPushedRun) and number not in self._forced:
            self._toss(number, args[0].dim(), results[index])
        if index == 0:
            return (chosen,)
        # The values are picked from the original arguments, not from those pushed to make the choice.
        dimension = schema_argument(node.target, node.args, node.kwargs, "dim")
        if dimension is None or args[0].dim() == 0:
            return results
        keep = chosen.dim() == args[0].dim()
        picked = _gathered(args[0], dimension, chosen if keep else chosen.unsqueeze(dimension))
        return (picked if keep else picked.squeeze(dimension), chosen)

    def _toss(self, number: int, dimensions: int, chosen: torch.Tensor) -> None:
        """Record where a pushed choice differs from the reference, unless the choice is returned and so judged
        itself."""
        expected = self._choices[number]
        returned = any(self._choice_behind(place) == number for place in self._tape.outputs.values())
        if chosen.shape != expected.shape or torch.equal(chosen, expected) or returned:
            return
        mask = (chosen != expected).numpy()
        if dimensions == chosen.dim():  # if one index is taken, another is not: mark the whole axis
            (mask,) = touched(mask, self._axis(number), [mask.shape])
        self._tossed[number] = mask | self._tossed.get(number, False)

    def _planned(self, node: TapeNode) -> _Plan:
        args, kwargs = with_vanished_limits(node)
        return _Plan(
            tuple(_dtype(a) for a in args),
            {key: _dtype(value) for key, value in kwargs.items()},
            self._rounds_nothing(node),
            tuple(_float_name(dtype) for dtype in node.dtypes),
        )

    def _rounds_nothing(self, node: TapeNode) -> bool:
        if works_on_quantised(self._tape, node):
            return True
        if not is_cast(node.target):
            return is_exact(node.target, node.kwargs)
        source = node.args[0]
        before = self._tape.dtype(source) if isinstance(source, (Slot, Constant)) else None
        return not _coarser(node.dtypes[0], before)


def _fit(results: tuple[Any, ...], names: tuple[str | None, ...]) -> bool:
    """True if all elements can be represented in these types and none is zero or subnormal: a subnormal number may be
    flushed to zero, and the sign of a zero is not defined."""
    for result, name in zip(results, names, strict=True):
        if name not in ("float32", "float16", "bfloat16"):
            return False
        values, tiny = _array(result), float(ml_dtypes.finfo(numpy_dtype(name)).tiny)
        if not _representable(result, name) or not bool((np.isfinite(values) & (np.abs(values) >= tiny)).all()):
            return False
    return True


def _representable(argument: Any, name: str | None) -> bool:
    """True if converting the tensor or number to this type does not change it."""
    if not name or not isinstance(argument, (torch.Tensor, int, float)):
        return False
    values = _array(argument) if isinstance(argument, torch.Tensor) else np.asarray(argument)
    with np.errstate(all="ignore"):
        return bool((values.astype(numpy_dtype(name)).astype(np.float64) == values).all())


def _is_decision(node: TapeNode) -> bool:
    """True for steps and choices, and for foreign kernels, which may contain some."""
    dtype = node.dtypes[0] if node.dtypes else None
    return isinstance(node.target, OwnKernel) or decides(node.target, dtype, node.kwargs)


def _coarser(after: torch.dtype | None, before: torch.dtype | None) -> bool:
    if after is None or not (after.is_floating_point or after.is_complex):
        return False
    if before is None or not (before.is_floating_point or before.is_complex):
        return True
    return torch.finfo(after).eps > torch.finfo(before).eps or torch.finfo(after).max < torch.finfo(before).max


def _lifted(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype in _SMALL:
        return tensor.to(torch.float64)
    return tensor.to(_LIFT[tensor.dtype]) if tensor.dtype in _LIFT else tensor.clone()


def _as_tensor(made: Any, dtype: torch.dtype | None) -> Any:
    """Convert a Python number to a tensor where the program has a tensor."""
    return torch.tensor(made, dtype=_dtype(dtype)) if dtype and isinstance(made, (int, float, complex)) else made


def _dtype(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value in _SMALL else _LIFT.get(value, value)
    return value


def _float_name(dtype: torch.dtype | None) -> str | None:
    if dtype is None or not (dtype.is_floating_point or dtype.is_complex):
        return None
    return str(dtype).removeprefix("torch.")


def _array(tensor: torch.Tensor) -> Array:
    return tensor.detach().resolve_conj().resolve_neg().contiguous().numpy()


def record(run: Callable[[], dict[str, torch.Tensor]]) -> Tape:
    """Run a program once, without compiling any part of it, and return its tape. `run` returns the outputs by name."""
    return call_uncompiled(lambda: _recorded(run))


def _recorded(run: Callable[[], dict[str, torch.Tensor]]) -> Tape:
    recorder = TapeRecorder(decompositions())
    with (
        torch.backends.mkldnn.flags(enabled=False),
        OpenOrder(recorder),
        recorder,
    ):  # fused oneDNN operations exist in float32 only
        outputs = run()
    if strange := next((type(kept) for kept in recorder.tape.constants if type(kept) not in _PLAIN), None):
        raise NoExactReference(f"the program computes on tensors of the class {strange.__name__}")
    recorder.tape.outputs = {name: recorder.place(tensor) for name, tensor in outputs.items()}
    return recorder.tape


def _gathered(values: torch.Tensor, dimension: int, places: torch.Tensor) -> torch.Tensor:
    """Gather elements along a dimension, viewing wide unsigned integers as signed ones, for which torch has no
    gather."""
    if values.dtype not in _SIGNED:
        return values.gather(dimension, places)
    return values.view(_SIGNED[values.dtype]).gather(dimension, places).view(values.dtype)
