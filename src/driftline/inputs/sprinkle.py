"""The special values of a check: numbers at which compilers go wrong, everywhere or in a few elements.

In a small program special numbers may be everywhere, since each output depends on few of them. In a model every output
depends on every input, so a few NaNs turn all of it into NaN and nothing can be compared. There, they go into a few
elements of one input, or milder ones are used. `campaign/check/specials.py` chooses.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from driftline.core.case import Inputs
from driftline.core.tensors import Array, is_float, numpy_dtype
from driftline.inputs.domain import integer_range, keeps_its_form
from driftline.inputs.make import UNKNOWN, InputMaker, ordinary_array
from driftline.inputs.plan import InputPlan


class Strength(StrEnum):
    """How many special values there are and which, from the strongest to the mildest."""

    WILD = "everywhere, integers of any size"
    EVERYWHERE = "everywhere"
    SINGLE = "in single places"
    MILD = "finite ones in single places"


SINGLE_PLACES = 3


def special_inputs(maker: InputMaker, seed: int, strength: Strength, number: int = 0) -> Inputs:
    """Return ordinary values with special values placed among them, as `strength` says."""
    rng = np.random.default_rng(seed)
    plans = maker.plans(number)
    arrays = {plan.spec.name: ordinary_array(plan, rng) for plan in plans}
    if strength in (Strength.WILD, Strength.EVERYWHERE):
        for plan in plans:
            special = _of_plan(plan, strength)
            if special.size:
                arrays[plan.spec.name] = _with_specials(arrays[plan.spec.name], special, rng)
    elif chosen := _chosen(plans, seed):
        name = chosen.spec.name
        arrays[name] = _in_single_places(arrays[name], _of_plan(chosen, strength), rng, seed)
    return Inputs(maker.settled(arrays), maker.origin(f"specials seed={seed} {strength}", number))


def _chosen(plans: tuple[InputPlan, ...], seed: int) -> InputPlan | None:
    """Return the one input that gets specials: a float input, chosen by the seed; an integer input if there is no
    float."""
    able = [plan for plan in plans if not keeps_its_form(plan) and np.prod(plan.spec.shape, dtype=np.int64)]
    floats = [plan for plan in able if is_float(plan.spec.dtype)]
    able = floats or [plan for plan in able if plan.spec.dtype[0] in "iu"]
    return able[seed % len(able)] if able else None


def _of_plan(plan: InputPlan, strength: Strength) -> Array:
    dtype = plan.spec.dtype
    if keeps_its_form(plan):
        return np.array([], numpy_dtype(dtype))
    if is_float(dtype):
        return mild_values(dtype) if strength is Strength.MILD else special_values(dtype)
    if dtype == "bool" or dtype.startswith("complex"):
        return np.array([], numpy_dtype(dtype))
    if strength is Strength.WILD and _may_be_wild(plan):
        return special_values(dtype)
    low, high = integer_range(plan) or (0, 7)
    return np.array(sorted({low, high}), dtype)


def _may_be_wild(plan: InputPlan) -> bool:
    """True if at most the range of an example is known of these integers, so that they may be plain numbers."""
    return plan.values == UNKNOWN or plan.values.startswith("range:")


def _with_specials(array: Array, special: Array, rng: np.random.Generator) -> Array:
    """Place special values in half of the elements, in their order, so that every tensor with room has the first
    ones."""
    flat = array.ravel()
    places = rng.permutation(flat.size)[: (flat.size + 1) // 2]
    flat[places] = np.resize(special, places.size)
    return flat.reshape(array.shape)


def _in_single_places(array: Array, special: Array, rng: np.random.Generator, seed: int) -> Array:
    """Place one special value in a few elements of a random row, not in the first batch entry if there are several."""
    flat = array.copy().reshape(-1)
    width = array.shape[-1] if array.ndim else 1
    row = int(rng.integers(0, flat.size // width))
    if array.ndim > 1 and array.shape[0] > 1:  # not in the first of the batch, so that one is as it was
        per = flat.size // array.shape[0]
        row = int(rng.integers(per, flat.size)) // width
    places = row * width + rng.permutation(width)[: max(1, min(SINGLE_PLACES, width // 8))]
    flat[places] = special[seed % special.size]
    return flat.reshape(array.shape)


def mild_values(dtype: str) -> Array:
    """Return zeros of both signs, subnormals, the smallest normal number, and numbers that are large but far from
    overflow."""
    import ml_dtypes

    info = ml_dtypes.finfo(numpy_dtype(dtype))
    large = float(2.0 ** (int(info.maxexp) // 8))
    tiny, normal = float(info.smallest_subnormal), float(info.smallest_normal)
    values = [large, -0.0, tiny, -large, normal, 0.0, -tiny, float(info.eps)]
    return np.array(values, np.float64).astype(numpy_dtype(dtype))


def special_values(dtype: str) -> Array:
    """Return NaN, infinities, signed zeros, subnormals, extremes and rounding ties; for integers the ends of the range
    and of smaller types."""
    kind = numpy_dtype(dtype)
    if is_float(dtype):
        import ml_dtypes

        info = ml_dtypes.finfo(kind)
        largest, smallest, tiny = float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)
        values = [float("nan")] if dtype == "float8_e4m3fn" else [float("nan"), float("inf"), float("-inf")]
        values += [-0.0, largest, tiny, -largest, 0.0, smallest, -tiny, 0.5, 1.5, 2.5, -2.5, float(info.eps), 1.0, -1.0]
        return np.array(values, dtype=np.float64).astype(kind)
    if dtype == "bool" or dtype.startswith("complex"):
        return np.array([], dtype=kind)
    limits = np.iinfo(kind)
    wanted = [limits.min, limits.min + 1, -1, 0, 1, limits.max - 1, limits.max]
    wanted += [2**31 - 1, 2**31, 2**53 + 1, 128, 255, 256]
    return np.array([v for v in wanted if limits.min <= v <= limits.max], dtype=kind)
