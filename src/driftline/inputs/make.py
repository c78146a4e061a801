"""Make input samples for a check: the program's own example, random values, or special values among them.

Each input is planned first (`planned`): its shape, and a rule for its values, from the inspection of the program or
else from the example. So an index stays a valid index and a mask stays a mask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from driftline.core.case import Inputs
from driftline.core.errors import DriftlineError
from driftline.core.tensors import Array, Arrays, TensorSpec, is_float, numpy_dtype
from driftline.inputs.dimensions import past_name, size_of
from driftline.inputs.domain import integer_range
from driftline.inputs.like import rule_of
from driftline.inputs.plan import InputPlan
from driftline.inputs.room import ROOM, require_room
from driftline.inputs.sizes import NOT_GIVEN, Chosen, Sizes, choose
from driftline.inputs.structured import is_structured, structured
from driftline.programs.known import NOTHING_KNOWN, Known
from driftline.programs.layout import InputLayout

STRATEGIES = ("example", "random", "specials", "symbolic")
_PIECE = 1 << 20  # elements
UNKNOWN = "range:0:7"  # integers of which nothing is known


@dataclass(frozen=True)
class InputMaker:
    """Makes the input samples of one program."""

    specs: tuple[TensorSpec, ...]
    example: Arrays
    known: Known = NOTHING_KNOWN
    sizes: Sizes = NOT_GIVEN
    room: int = ROOM  # bytes that one sample may take

    def chosen(self, number: int) -> Chosen:
        """Return the shapes of sample `number`."""
        return choose(self.specs, self.example, self.known, self.sizes.turn(number))

    def plans(self, number: int) -> tuple[InputPlan, ...]:
        """Plan the inputs of sample `number`. Raises an error if they take more than `room` bytes."""
        chosen = self.chosen(number)
        require_room([replace(spec, shape=chosen.shapes[spec.name]) for spec in self.specs], self.room)
        return planned(self.specs, self.example, self.known, chosen)

    def random(self, seed: int, number: int) -> Inputs:
        """Return a sample of random values."""
        plans, chosen = self.plans(number), self.chosen(number)
        rng = np.random.default_rng(seed)
        arrays = {plan.spec.name: ordinary_array(plan, rng) for plan in plans}
        return Inputs(self.settled(arrays), f"random seed={seed}{_sized(chosen)}")

    def settled(self, arrays: Arrays) -> Arrays:
        """Return the arrays with inputs that alias the same memory made consistent."""
        layout = InputLayout.from_json(self.known.layout)
        return layout.settled(arrays) if layout else arrays

    def origin(self, words: str, number: int) -> str:
        return f"{words}{_sized(self.chosen(number))}"


def planned(specs: Sequence[TensorSpec], example: Arrays, known: Known, chosen: Chosen) -> tuple[InputPlan, ...]:
    """Plan each input: fix its shape, and replace the dimension names in its rule by numbers."""
    past = chosen.sizes.get(past_name(tuple(chosen.sizes)), 0) or _cached(chosen)
    plans = []
    for spec in specs:
        given = example.get(spec.name)
        shape = chosen.shapes[spec.name]
        rule = _rule(spec, given, known, chosen, past)
        like = given if given is not None and given.shape == shape else None
        if rule == "exact" and like is None:
            rule = "mask"
        plans.append(InputPlan(TensorSpec(spec.name, spec.dtype, shape), rule, like if rule == "exact" else None))
    return tuple(plans)


def _cached(chosen: Chosen) -> int:
    """Return how many positions a key-value cache of shape [batch, heads, positions, width] already holds, or 0."""
    return next((s[2] for n, s in chosen.shapes.items() if n.lower().startswith("past") and len(s) == 4), 0)


def _rule(spec: TensorSpec, example: Array | None, known: Known, chosen: Chosen, past: int) -> str:
    rule, _, bound = known.rules.get(spec.name, "").partition(":")
    read = rule_of(example) if example is not None else ""
    if rule in ("", "index") and read.partition(":")[0] in ("positions", "mask", "padding", "exact"):
        return read
    if rule == "sizes":
        if example is not None:
            return "exact"
        raise DriftlineError(
            f"The input {spec.name!r} holds sizes ({known.why[spec.name]}), which Driftline cannot guess:"
            f" give the inputs in a file, as in --inputs FILE.npz (made with numpy.savez)."
        )
    if rule == "positions":
        return f"positions:{past}"
    if rule in ("index", "lengths", "equal"):
        size = size_of(bound, chosen.sizes)
        if size is None:
            return read or UNKNOWN
        return {"index": f"index:{size}", "lengths": f"range:1:{size}", "equal": f"range:{size}:{size}"}[rule]
    if rule:
        return known.rules[spec.name]
    if read and read != "like":
        return read
    return "any" if _is_free(spec.dtype) else UNKNOWN


def _is_free(dtype: str) -> bool:
    return is_float(dtype) or dtype.startswith("complex") or dtype == "bool"


def random_inputs(specs: Sequence[TensorSpec], example: Mapping[str, Array], seed: int) -> Inputs:
    """Return normally distributed floats, and integers of the same kind as in the example."""
    return InputMaker(tuple(specs), dict(example)).random(seed, 0)


def ordinary_array(plan: InputPlan, rng: np.random.Generator) -> Array:
    """Draw a tensor that follows its plan: normally distributed floats, integers spread over their range."""
    dtype, shape = plan.spec.dtype, plan.spec.shape
    if plan.example is not None and plan.values == "exact":
        return plan.example.copy()
    if is_structured(plan):
        return structured(plan, rng, shape)
    values: Array
    if is_float(dtype):
        return _normal(rng, shape, dtype)
    if dtype.startswith("complex"):
        values = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    elif dtype == "bool":
        values = rng.integers(0, 2, shape)
    else:
        low, high = integer_range(plan) or (0, 7)
        values = rng.integers(low, high, shape, dtype=np.dtype(dtype).type, endpoint=True)
    return np.asarray(values).astype(numpy_dtype(dtype))


def _normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Draw normal numbers piece by piece, so that a large tensor does not also exist in float64."""
    values = np.empty(shape, numpy_dtype(dtype))
    flat = values.reshape(-1)
    for start in range(0, flat.size, _PIECE):
        piece = flat[start : start + _PIECE]
        piece[:] = rng.standard_normal(piece.size).astype(flat.dtype)
    return values


def _sized(chosen: Chosen) -> str:
    return f", {chosen}" if chosen.sizes else ""
