"""Input samples for a check: the program's own example, random values, or special values among them.

Each input is first planned (`planned`): its shape, and a rule for what it may hold, from what inspection found in the
program, else from the example. An index stays an index and a mask a mask, whatever is drawn.
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
    """Makes the samples of one program."""

    specs: tuple[TensorSpec, ...]
    example: Arrays
    known: Known = NOTHING_KNOWN
    sizes: Sizes = NOT_GIVEN
    room: int = ROOM  # bytes that one sample may take

    def chosen(self, number: int) -> Chosen:
        return choose(self.specs, self.example, self.known, self.sizes.turn(number))

    def plans(self, number: int) -> tuple[InputPlan, ...]:
        chosen = self.chosen(number)
        require_room([replace(spec, shape=chosen.shapes[spec.name]) for spec in self.specs], self.room)
        return planned(self.specs, self.example, self.known, chosen)

    def random(self, seed: int, number: int) -> Inputs:
        plans, chosen = self.plans(number), self.chosen(number)
        rng = np.random.default_rng(seed)
        arrays = {plan.spec.name: ordinary_array(plan, rng) for plan in plans}
        return Inputs(self.settled(arrays), f"random seed={seed}{_sized(chosen)}")

    def settled(self, arrays: Arrays) -> Arrays:
        """Inputs that share their memory hold the same numbers there."""
        layout = InputLayout.from_json(self.known.layout)
        return layout.settled(arrays) if layout else arrays

    def origin(self, words: str, number: int) -> str:
        return f"{words}{_sized(self.chosen(number))}"


def planned(specs: Sequence[TensorSpec], example: Arrays, known: Known, chosen: Chosen) -> tuple[InputPlan, ...]:
    """What each input is to be, its shape fixed and the dimensions in its rule replaced by numbers."""
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
    """How many positions a cache of keys holds already: [batch, heads, positions, width]."""
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
    """Normal floats, and integers of the kind that the example has."""
    return InputMaker(tuple(specs), dict(example)).random(seed, 0)


def ordinary_array(plan: InputPlan, rng: np.random.Generator) -> Array:
    """A tensor that keeps its plan: normal floats, integers spread over their range."""
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
    """Drawn in float64, piece by piece: a large tensor is never held twice."""
    values = np.empty(shape, numpy_dtype(dtype))
    flat = values.reshape(-1)
    for start in range(0, flat.size, _PIECE):
        piece = flat[start : start + _PIECE]
        piece[:] = rng.standard_normal(piece.size).astype(flat.dtype)
    return values


def _sized(chosen: Chosen) -> str:
    return f", {chosen}" if chosen.sizes else ""
