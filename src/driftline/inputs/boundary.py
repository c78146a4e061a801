"""The strategy `boundary`: numbers at and next to the edges at which the program's operators change their behaviour."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from driftline.core.tensors import Array, is_float
from driftline.inputs.domain import allowed, integer_range, keeps_its_form, mixed, part_of
from driftline.inputs.ordinary import complex_of, float_format, ordinary
from driftline.inputs.plan import InputPlan
from driftline.inputs.strategies import InputStrategy

_USUAL = (-1.0, 0.0, 1.0)  # where most operators have an edge, when nothing is known


class BoundaryValues(InputStrategy):
    """Draws edges and the numbers one ULP next to them, among ordinary numbers."""

    name = "boundary"

    def fill(self, plan: InputPlan, rng: np.random.Generator, edges: tuple[float, ...]) -> Array:
        dtype, array, edges = plan.spec.dtype, ordinary(plan, rng), edges or _USUAL
        if keeps_its_form(plan) or not array.size:
            return array
        if dtype.startswith("complex"):
            near = _floats(part_of(dtype), plan.values, edges)
            return complex_of(mixed(array.real.copy(), near, rng), array.imag, dtype)
        if is_float(dtype):
            return mixed(array, _floats(dtype, plan.values, edges), rng)
        return mixed(array, _integers(dtype, plan.values, edges, integer_range(plan)), rng)


@lru_cache(1024)
def _floats(dtype: str, rule: str, edges: tuple[float, ...]) -> Array:
    """Return each edge, rounded to `dtype`, with its neighbouring floats, as far as `rule` allows."""
    form = float_format(dtype)
    inside = [edge for edge in edges if abs(edge) <= form.largest]
    at = np.array(inside, np.float64).astype(form.kind)
    ends = [form.kind.type(-form.largest), form.kind.type(form.largest)]
    near = np.concatenate([at, *(np.nextafter(at, end) for end in ends)])
    near = np.concatenate([near, -near[near == 0]])  # both zeros
    return near[allowed(near, rule)]


@lru_cache(1024)
def _integers(dtype: str, rule: str, edges: tuple[float, ...], limits: tuple[int, int] | None) -> Array:
    """Return the allowed integers around each edge, and the ends of the range if there is one."""
    if limits is None:
        info = np.iinfo(dtype)
        low, high, wanted = int(info.min), int(info.max), set()
    else:
        low, high = limits
        wanted = {low, high}
    around = [math.floor(edge) + step for edge in edges if math.isfinite(edge) for step in (-1, 0, 1)]
    array = np.array(sorted(wanted | {v for v in around if low <= v <= high}), dtype)
    return array[allowed(array, rule)]
