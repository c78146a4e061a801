"""The strategies `specials`, `nan` and `infinities`: numbers at which compilers go wrong, among ordinary ones.

A NaN everywhere hides every other mistake. A tensor of floats therefore has, about equally often, only finite specials,
a single NaN, or infinities without NaN; and occasionally all of them. `nan` and `infinities` always use one of these
modes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import numpy as np

from driftline.core.tensors import Array, is_float, numpy_dtype
from driftline.inputs.domain import allowed, integer_range, keeps_its_form, mixed, part_of
from driftline.inputs.ordinary import complex_of, ordinary
from driftline.inputs.plan import InputPlan
from driftline.inputs.sprinkle import special_values
from driftline.inputs.strategies import InputStrategy


class SpecialValues(InputStrategy):
    """Places special numbers in one element, in half of them or in a whole row."""

    name = "specials"
    modes: ClassVar[tuple[str, ...]] = ("finite",) * 3 + ("nan",) * 3 + ("infinite",) * 3 + ("all",)

    def fill(self, plan: InputPlan, rng: np.random.Generator, edges: tuple[float, ...]) -> Array:
        dtype, array = plan.spec.dtype, ordinary(plan, rng)
        if keeps_its_form(plan) or not array.size:
            return array
        if is_float(dtype):
            return self._floats(array, dtype, plan.values, rng)
        if dtype.startswith("complex"):
            return self._complex(array, dtype, plan.values, rng)
        return mixed(array, _integers(dtype, plan.values, integer_range(plan)), rng)

    def _complex(self, array: Array, dtype: str, rule: str, rng: np.random.Generator) -> Array:
        real = self._floats(array.real.copy(), part_of(dtype), rule, rng)
        if rule not in ("any", "nonzero") or rng.random() < 0.5:
            return complex_of(real, array.imag, dtype)
        return complex_of(real, self._floats(array.imag.copy(), part_of(dtype), rule, rng), dtype)

    def _floats(self, array: Array, dtype: str, rule: str, rng: np.random.Generator) -> Array:
        mode = self.modes[int(rng.random() * len(self.modes))]
        array = mixed(array, _of_mode(dtype, rule, mode), rng)
        if mode == "nan" and rule in ("any", "nonzero"):
            flat = array.reshape(-1)
            flat[int(rng.integers(0, flat.size))] = np.nan
            return flat.reshape(array.shape)
        return array


class OneNan(SpecialValues):
    """Places a single NaN in each tensor of floats, with finite specials around it."""

    name = "nan"
    modes = ("nan",)


class Infinities(SpecialValues):
    """Places infinities, but no NaN."""

    name = "infinities"
    modes = ("infinite",)


@lru_cache(1024)
def _of_mode(dtype: str, rule: str, mode: str) -> Array:
    """Return the specials of a mode: all of them, the infinities, or (`finite` and `nan`) the finite ones."""
    every = _float_specials(dtype)
    every = every[allowed(every, rule)]
    wide = every.astype(np.float64)
    if mode == "all":
        return every
    if mode == "infinite" and np.isinf(wide).any():
        return every[np.isinf(wide)]
    return every[np.isfinite(wide)]


@lru_cache(64)
def _float_specials(dtype: str) -> Array:
    """Return the common special values, plus the neighbours of one and of the smallest normal number."""
    common, kind = special_values(dtype), numpy_dtype(dtype)
    one, zero, two = kind.type(1), kind.type(0), kind.type(2)
    normal = common[common.astype(np.float64) > 0]
    smallest = np.sort(normal)[:2]  # the smallest number, and the smallest normal one
    more = [np.nextafter(one, two), np.nextafter(one, zero), np.nextafter(smallest[1], zero), -smallest[1]]
    more += [kind.type(3.5), kind.type(-0.5), kind.type(-1.5)]
    return np.concatenate([common, np.array(more, kind)])


@lru_cache(1024)
def _integers(dtype: str, rule: str, limits: tuple[int, int] | None) -> Array:
    """Return the ends of the range. Without a range, return the ends of the dtype and of smaller integer types."""
    if limits is not None:
        low, high = limits
        wanted = {low, high, min(low + 1, high), max(high - 1, low)} if rule != "like" else {low, high}
        if rule.startswith("wrapped:"):
            wanted |= {v for v in (-1, 0) if low <= v <= high}
        return np.array(sorted(wanted), dtype)
    info = np.iinfo(dtype)
    more = [-(2**31), -(2**31) - 1, 2**32, 2**53, -(2**53) - 1, 2**62, -(2**62), 127, -128, -129, 65535, 65536, 2, -2]
    values = [*special_values(dtype).tolist(), *(v for v in more if info.min <= v <= info.max)]
    array = np.array(values, dtype)
    return array[allowed(array, rule)]
