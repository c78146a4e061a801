"""Input samples from a strategy: the program's own example, random values, or special values.

Integers are drawn from the range of the example, when there is one: they may be indices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from driftline.core.case import Inputs
from driftline.core.tensors import Array, Arrays, TensorSpec, is_float, numpy_dtype

STRATEGIES = ("example", "random", "specials")
OPEN_SIZE = 2  # the size given to a dimension that the program leaves open


def random_inputs(specs: Sequence[TensorSpec], example: Mapping[str, Array], seed: int) -> Inputs:
    """Normal floats, integers within the example's range."""
    rng = np.random.default_rng(seed)
    arrays: Arrays = {}
    for spec in specs:
        shape = example[spec.name].shape if spec.name in example else spec.sized(OPEN_SIZE)
        if is_float(spec.dtype):
            values = rng.standard_normal(shape)
        elif spec.dtype.startswith("complex"):
            values = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        else:
            values = _integers(rng, spec.dtype, shape, example.get(spec.name))
        arrays[spec.name] = np.asarray(values).astype(numpy_dtype(spec.dtype))
    return Inputs(arrays, f"random seed={seed}")


def special_inputs(specs: Sequence[TensorSpec], example: Mapping[str, Array], seed: int, *, tame: bool) -> Inputs:
    """Half ordinary values, half values at which compilers go wrong. `tame` keeps integers in the example's range."""
    rng = np.random.default_rng(seed)
    ordinary = random_inputs(specs, example, seed).arrays
    arrays: Arrays = {}
    for spec in specs:
        array = ordinary[spec.name].copy()
        special = special_values(spec.dtype)
        if len(special) and not (tame and not is_float(spec.dtype)):
            array = _with_specials(array, special, rng)
        arrays[spec.name] = array
    return Inputs(arrays, f"specials seed={seed}{' tame' if tame else ''}")


def _with_specials(array: Array, special: Array, rng: np.random.Generator) -> Array:
    """Special values in half of the places, each in its turn: the first ones are in every tensor that has room."""
    flat = array.ravel()
    places = rng.permutation(flat.size)[: (flat.size + 1) // 2]
    flat[places] = np.resize(special, places.size)
    return flat.reshape(array.shape)


def special_values(dtype: str) -> Array:
    """NaN, infinities, signed zeros, subnormals, extremes, rounding ties; the ends and the wrap-around of integers."""
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


def _integers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], example: Array | None) -> Array:
    if dtype == "bool":
        return rng.integers(0, 2, shape)
    low, high = 0, 7
    if example is not None and example.size:
        low, high = int(example.min()), int(example.max())
    return rng.integers(low, high, shape, dtype=np.dtype(dtype).type, endpoint=True)
