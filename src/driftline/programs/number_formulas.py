"""Arrays that a short numpy expression produces: counting, evenly spaced numbers, numbers drawn from a seed.

A script with `np.random.default_rng(0).standard_normal((64, 64), np.float32)` is read in seconds; the same numbers as
literals or as packed bytes are not read at all. `formulas` makes such arrays, and `formula_of` recognises them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from driftline.core.tensors import Array, numpy_dtype

SEEDS = 10  # the seeds that are recognised
_PROBE = 4  # elements that are compared before all are
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class NumberFormula:
    """An expression of numpy for an array of any shape. `text` has places for the seed, the shape and the size; `made`
    computes the first elements of the array, given their number, the array's size and the seed."""

    text: str
    made: Callable[[int, int, int], Array]
    dtype: str  # of the expression's result
    seeded: bool = False

    def array(self, shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
        """Return the array of this shape, converted to a dtype."""
        size = int(np.prod(shape))
        return self.made(size, size, seed).astype(numpy_dtype(dtype)).reshape(shape)

    def expression(self, shape: tuple[int, ...], seed: int = 0) -> str:
        """Return the text of the expression, for an array of the formula's own dtype."""
        return self.text.format(seed=seed, shape=shape, size=int(np.prod(shape)))


def _arange(count: int, size: int, seed: int) -> Array:
    return np.arange(count)


def _linspace(kind: type) -> Callable[[int, int, int], Array]:
    return lambda count, size, seed: np.linspace(-1, 1, size, dtype=kind)[:count]


def _integers(low: int, high: int) -> Callable[[int, int, int], Array]:
    return lambda count, size, seed: np.random.default_rng(seed).integers(low, high, count)


def _normal(kind: type) -> Callable[[int, int, int], Array]:
    return lambda count, size, seed: np.random.default_rng(seed).standard_normal(count, kind)


_DRAWN = "np.random.default_rng({seed})."
_COUNTING = NumberFormula("np.arange({size}).reshape({shape})", _arange, "int64")
_BITS = NumberFormula(_DRAWN + "integers(0, 2, {shape})", _integers(0, 2), "int64", seeded=True)
_NATURAL = NumberFormula(_DRAWN + "integers(0, 9, {shape})", _integers(0, 9), "int64", seeded=True)
_SMALL = NumberFormula(_DRAWN + "integers(-4, 5, {shape})", _integers(-4, 5), "int64", seeded=True)
_SINGLE = (
    NumberFormula("np.linspace(-1, 1, {size}, dtype=np.float32).reshape({shape})", _linspace(np.float32), "float32"),
    NumberFormula(_DRAWN + "standard_normal({shape}, np.float32)", _normal(np.float32), "float32", seeded=True),
)
_DOUBLE = (
    NumberFormula("np.linspace(-1, 1, {size}).reshape({shape})", _linspace(np.float64), "float64"),
    NumberFormula(_DRAWN + "standard_normal({shape})", _normal(np.float64), "float64", seeded=True),
)


def formulas(dtype: str) -> tuple[NumberFormula, ...]:
    """Return the formulas for arrays of a dtype, the plainest first; none for dtypes whose rounding differs between
    libraries, such as float8."""
    if dtype == "bool":
        return (_BITS,)
    if dtype in _INTEGERS:
        return (_COUNTING, _NATURAL) if dtype.startswith("u") else (_COUNTING, _NATURAL, _SMALL)
    if dtype in _FLOATS:
        return (_COUNTING, _NATURAL, _SMALL, *(_DOUBLE if dtype == "float64" else _SINGLE))
    return ()


def formula_of(array: Array) -> tuple[NumberFormula, int] | None:
    """The formula and the seed that give exactly the elements of an array; `None` where no formula does."""
    flat = np.ascontiguousarray(array).reshape(-1)
    for formula, seed in _possible(array.dtype.name):
        if _same(formula.made(min(_PROBE, flat.size), flat.size, seed), flat[:_PROBE]) and _same(
            formula.made(flat.size, flat.size, seed), flat
        ):
            return formula, seed
    return None


def _possible(dtype: str) -> Iterator[tuple[NumberFormula, int]]:
    for formula in formulas(dtype):
        for seed in range(SEEDS if formula.seeded else 1):
            yield formula, seed


def _same(made: Array, flat: Array) -> bool:
    with np.errstate(all="ignore"):
        return made.astype(flat.dtype).tobytes() == flat.tobytes()


def all_but_one(array: Array) -> int | None:
    """The index of the only element that differs from all others, in an array whose other elements are all 0 or all 1.
    `None` for other arrays."""
    flat = np.ascontiguousarray(array).reshape(-1)
    for base in (0, 1) if flat.size > 2 else ():
        usual = np.array(base).astype(flat.dtype).tobytes()
        bits = flat.view(np.uint8).reshape(flat.size, -1)
        different = np.flatnonzero((bits != np.frombuffer(usual, np.uint8)).any(axis=1))
        if different.size == 1:
            return int(different[0])
    return None
