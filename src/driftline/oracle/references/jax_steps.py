"""Steps of a JAX program that rounding may decide: floor, comparisons, casts to integers, argmax.

A jaxpr is evaluated in float64 with a rounding error in each operation, which shows how far the arguments of its steps
move. In further runs these arguments are pushed that far to either side. What a program without a step returns is
judged by its inputs' rounding alone (`oracle/reference.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from driftline.core.tensors import Array, is_float, numpy_dtype
from driftline.oracle.arithmetic import IEEE
from driftline.oracle.references.base import NoExactReference

if TYPE_CHECKING:
    import jax
    from jax.extend.core import JaxprEqn

Apply = Callable[[list["jax.Array"]], Sequence["jax.Array"]]

NOISY_RUNS = 4
PUSHED_RUNS = 6
PUSH = 8.0  # times as far as the noisy runs move an argument
MOST_WORK = 4  # times as many operations as in the exact run: a loop may never end when its condition is pushed
SLACK = 1000  # operations
MOST_OPERATIONS = 4000  # of the exact run: a longer one, as of a loop, would take ten times as long here

_MOVING = {
    "abs", "all_gather", "broadcast_in_dim", "clamp", "complex", "concatenate", "conj", "copy", "copy_p", "cummax",
    "cummin", "device_put", "dynamic_slice", "dynamic_update_slice", "expand_dims", "gather", "imag", "iota", "max",
    "min", "neg", "nextafter", "optimization_barrier", "pad", "real", "reduce_max", "reduce_min", "reduce_precision",
    "reduce_window_max", "reduce_window_min", "reshape", "rev", "scatter", "scatter_max", "scatter_min", "select_n",
    "slice", "split", "squeeze", "stop_gradient", "transpose",
}  # fmt: skip
_STEPS = {
    "argmax", "argmin", "ceil", "eq", "eq_to", "floor", "ge", "gt", "le", "le_to", "lt", "lt_to", "ne", "rem", "round",
    "sign", "sort", "top_k",
}  # fmt: skip
_SUMS = {"conv_general_dilated", "cumsum", "dot_general", "reduce_sum", "reduce_window_sum"}
# Correctly rounded in every implementation, so exact where the type holds the result.
_CORRECTLY_ROUNDED: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "add_any": np.add, "div": np.divide, "mul": np.multiply, "sub": np.subtract,
}  # fmt: skip


@dataclass
class StepArguments:
    """The float arguments of each step in the exact run, in the order in which the steps run, and how far they move."""

    exact: list[list[Array]] = field(default_factory=list)
    reach: list[list[Array]] = field(default_factory=list)
    operations: int = 0  # of the exact run

    def observe(self, turn: int, given: Sequence[Array]) -> None:
        """Note the arguments that step number `turn` has in a noisy run. A run on another path has other steps."""
        for at, value in enumerate(given):
            if turn < len(self.exact) and at < len(self.exact[turn]) and self.exact[turn][at].shape == value.shape:
                with np.errstate(all="ignore"):
                    moved = np.abs(value - self.exact[turn][at])
                np.fmax(self.reach[turn][at], np.where(np.isfinite(moved), moved, 0.0), out=self.reach[turn][at])

    def reach_of(self, turn: int, at: int, shape: tuple[int, ...]) -> Array | float:
        """Return how far argument `at` of a step moves."""
        known = self.reach[turn] if turn < len(self.reach) else []
        return known[at] if at < len(known) and known[at].shape == shape else 0.0


class JaxRun:
    """One evaluation of a jaxpr, here the exact one: it collects the arguments of steps."""

    def __init__(self, steps: StepArguments | None = None) -> None:
        self.steps = StepArguments() if steps is None else steps
        self._turn = 0
        self._operations = 0

    def compute(self, equation: JaxprEqn, operands: list[jax.Array], apply: Apply) -> Sequence[jax.Array]:
        """Return the results of an operation; `apply` computes them for operands."""
        self._operations += 1
        self._count()
        if not _is_step(equation):
            return apply(operands)
        places = [at for at, atom in enumerate(equation.invars) if is_float(str(atom.aval.dtype))]
        given = self._step(self._turn, [np.asarray(operands[at]) for at in places])
        self._turn += 1
        moved = dict(zip(places, given, strict=True))
        return apply([_like(moved[at], operand) if at in moved else operand for at, operand in enumerate(operands)])

    def _step(self, turn: int, given: list[Array]) -> list[Array]:
        """Return the arguments with which step number `turn` decides."""
        self.steps.exact.append(given)
        self.steps.reach.append([np.zeros(value.shape) for value in given])
        return given

    def _count(self) -> None:
        self.steps.operations = self._operations


class _OtherRun(JaxRun):
    """A run that departs from the exact one, and ends where it takes much longer."""

    def _count(self) -> None:
        if self._operations > MOST_WORK * self.steps.operations + SLACK:
            raise NoExactReference("a loop does not end in as many steps as in float64")


class NoisyJaxRun(_OtherRun):
    """An evaluation with a rounding error in each operation."""

    def __init__(self, steps: StepArguments, seed: int) -> None:
        super().__init__(steps)
        self._random = np.random.default_rng(seed)

    def compute(self, equation: JaxprEqn, operands: list[jax.Array], apply: Apply) -> Sequence[jax.Array]:
        results = super().compute(equation, operands, apply)
        if equation.primitive.name in _MOVING or _is_step(equation):
            return results
        sizes = _errors(equation, operands, results, apply)
        return [
            result if size is None else self._disturbed(np.asarray(result), size)
            for result, size in zip(results, sizes, strict=True)
        ]

    def _step(self, turn: int, given: list[Array]) -> list[Array]:
        self.steps.observe(turn, given)
        return given

    def _disturbed(self, value: Array, size: Array) -> jax.Array:
        with np.errstate(all="ignore"):
            moved = value + size * self._random.uniform(-1.0, 1.0, value.shape)
        return _like(np.where(np.isfinite(moved) & (value != 0), moved, value), value)


class PushedJaxRun(_OtherRun):
    """An evaluation in which the arguments of steps are pushed: all up, all down, or each one to a side of its own."""

    def __init__(self, steps: StepArguments, number: int) -> None:
        super().__init__(steps)
        self._number = number
        self._random = np.random.default_rng(number)

    def _step(self, turn: int, given: list[Array]) -> list[Array]:
        pushed = []
        for at, value in enumerate(given):
            up = 1.0 if (self._number + at) % 2 else -1.0  # the two sides of a comparison go apart
            side = up if self._number < 2 else self._random.choice(np.array([-1.0, 1.0]), value.shape)
            pushed.append(value + side * PUSH * self.steps.reach_of(turn, at, value.shape))
        return pushed


def _is_step(equation: JaxprEqn) -> bool:
    """True if an operation of floats decides something. A sort of one array only moves numbers."""
    name = equation.primitive.name
    if name == "convert_element_type":
        return is_float(str(equation.invars[0].aval.dtype)) and str(equation.outvars[0].aval.dtype)[:3] in (
            "boo", "int", "uin",
        )  # fmt: skip
    return name in _STEPS and (name != "sort" or len(equation.invars) > 1)


def _errors(
    equation: JaxprEqn, operands: list[jax.Array], results: Sequence[jax.Array], apply: Apply
) -> list[Array | None]:
    """Return the size of the rounding error of each result, `None` for results that are no floats."""
    name, sizes = equation.primitive.name, list[Array | None]()
    for index, (made, result) in enumerate(zip(equation.outvars, results, strict=True)):
        value, dtype = np.asarray(result), str(made.aval.dtype)
        if not is_float(dtype):
            sizes.append(None)
            continue
        size = IEEE.unit(dtype) * np.abs(value) + IEEE.tiny(dtype)
        if name in _SUMS:
            size = size + IEEE.accumulator(dtype) * np.asarray(apply([abs(operand) for operand in operands])[index])
        elif name == "convert_element_type" or name in _CORRECTLY_ROUNDED:
            size = np.where(_is_exact(name, operands, value, dtype), 0.0, size)
        else:
            size = IEEE.transcendental(dtype) * np.abs(value) + IEEE.tiny(dtype)
        sizes.append(size)
    return sizes


def _is_exact(name: str, operands: list[jax.Array], value: Array, dtype: str) -> Array:
    """Return a mask of the results that need no rounding, computed in a wider type than `dtype`."""
    if dtype != "float64":
        return np.asarray(value.astype(numpy_dtype(dtype)).astype(np.float64) == value)
    compute = _CORRECTLY_ROUNDED.get(name)
    if compute is None:
        return np.ones(value.shape, dtype=bool)
    first, second = (np.asarray(operand).astype(np.longdouble) for operand in operands)
    return np.asarray(compute(first, second) == value)


def _like(value: Array, other: jax.Array | Array) -> jax.Array:
    import jax.numpy as jnp

    return jnp.asarray(value, dtype=other.dtype)
