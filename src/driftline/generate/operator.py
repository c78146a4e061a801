"""The types of the operator table: an operator has a type rule, and forms in torch, ONNX, jnp and TensorFlow.

The type rule has two parts. `draw` takes the type of the first input and chooses attributes and the types of the other
inputs such that the result is valid; `infer` returns the types of the results, or raises `Invalid`. Generators use the
former, mutations the latter, and tests compare both with eager execution.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from driftline.generate.graph import TensorType

if TYPE_CHECKING:
    from driftline.generate.emit_onnx import OnnxWriter

T = TypeVar("T")

HALVES = ("float16", "bfloat16")
FLOATS = ("float32", "float64", *HALVES)
SIGNED = ("int64", "int32", "int16", "int8")
WIDE_UNSIGNED = ("uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, "uint8")  # supported by every torch operator; few support the wide unsigned types
NUMBERS = (*FLOATS, *INTEGERS)
ALL = (*NUMBERS, "bool")
COMPLEX = ("complex64", "complex128")


class Invalid(Exception):
    """The inputs and attributes do not fit the operator."""


@dataclass(frozen=True)
class Need:
    """A further input that an operator needs.

    `values`: any; `index:N` for integers in [0, N); `wrapped:N` for integers in [-N, N); `distinct:N` for distinct
    integers in [0, N) along the last axis; `below:N` for amounts in [0, N), such as shifts; `positive` for floats above
    zero; `unit` for floats in [0, 1]; `nonzero`.
    """

    type: TensorType
    values: str = "any"
    prefer: str = ""  # parameter: a weight rather than an input; constant: an input without a gradient


@dataclass(frozen=True)
class Use:
    """One application of an operator: names and types of its inputs, types of its outputs, attributes."""

    inputs: Sequence[str]  # names
    types: Sequence[TensorType]
    outputs: Sequence[TensorType]
    attributes: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.attributes[key]


class Draw:
    """Random choices for type rules, all from one generator."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def choice(self, options: Sequence[T]) -> T:
        return options[int(self.rng.random() * len(options))]

    def integer(self, low: int, high: int) -> int:
        """Return a random integer between `low` and `high`, both included."""
        return low + int(self.rng.random() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def axis(self, rank: int) -> int:
        """Return a valid axis, counted from either end; 0 for a 0-d tensor."""
        return self.integer(-rank, rank - 1) if rank else 0

    def axes(self, rank: int, least: int = 1) -> list[int]:
        """Return distinct axes in increasing order, counted from the front."""
        count = self.integer(min(least, rank), rank)
        return sorted(self.rng.sample(range(rank), count))

    def size(self) -> int:
        """Return a size at which kernels may switch code paths: one, primes, powers of two and their neighbours."""
        return self.choice(_SIZES)

    def shape(self, low: int = 0, high: int = 4, most: int = 512) -> tuple[int, ...]:
        """Return a shape with between `low` and `high` axes and at most `most` elements, occasionally with an empty
        axis."""
        sizes: list[int] = []
        total = 1
        for _ in range(self.integer(low, high)):
            size = self.size()
            if total * size > most:
                size = self.integer(1, 3)
            sizes.append(size)
            total *= max(size, 1)
        if sizes and self.chance(0.02):
            sizes[self.integer(0, len(sizes) - 1)] = 0
        return tuple(sizes)

    def broadcastable(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape that broadcasts to `shape`: the same, with fewer leading axes, or with ones in some places."""
        if self.chance(0.5):
            return shape
        kept = shape[self.integer(0, len(shape)) :] if shape else shape
        return tuple(1 if self.chance(0.3) else size for size in kept)


class LargeDraw(Draw):
    """Draws shapes with one long axis, near the sizes at which compilers tile, vectorise, split sums or start threads.
    The other axes are short, so that programs stay cheap."""

    def shape(self, low: int = 0, high: int = 4, most: int = 1 << 15) -> tuple[int, ...]:
        rank = self.integer(max(low, 1), max(high, 1))
        long = self.choice(self.long_sizes(rank))
        at = rank - 1 if self.chance(0.6) else self.integer(0, rank - 1)
        sizes, total = [], long
        for axis in range(rank):
            size = long if axis == at else self.choice(_BESIDE)
            if axis != at and total * size > most:
                size = 1
            sizes.append(size)
            total *= size if axis != at else 1
        return tuple(sizes)

    def long_sizes(self, rank: int) -> Sequence[int]:
        return THRESHOLDS if rank > 2 else _LONGEST


class LongestDraw(LargeDraw):
    """Like `LargeDraw`, with axes of about 1,024 elements or more, which `LargeDraw` seldom draws."""

    def long_sizes(self, rank: int) -> Sequence[int]:
        return [size for size in super().long_sizes(rank) if size >= 1023]


class EmptyDraw(Draw):
    """Draws shapes with an axis of no elements."""

    def shape(self, low: int = 0, high: int = 4, most: int = 512) -> tuple[int, ...]:
        sizes = list(super().shape(max(low, 1), max(high, 1), most))
        sizes[self.integer(0, len(sizes) - 1)] = 0
        return tuple(sizes)


_SIZES = (1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 7, 8, 8, 11, 13, 15, 16, 17, 31, 32, 33, 64)
THRESHOLDS = tuple(size + off for size in (64, 128, 256, 512, 1024) for off in (-1, 0, 1))
_LONGEST = (*THRESHOLDS, *THRESHOLDS, 2048, 2049, 4097, 16385, 32769)
_BESIDE = (1, 2, 3, 4, 5, 16, 17, 33)

Types = Sequence[TensorType]
Attributes = Mapping[str, Any]
TypeRule = Callable[[Sequence[TensorType], Mapping[str, Any]], Sequence[TensorType]]
Text = str | Callable[[Use], str]  # an expression; in a template {0} {1} are inputs, {name} attributes as Python writes
OnnxWords = str | Callable[["OnnxWriter", Use], "str | Sequence[str]"]  # an operator type, or code that adds nodes


@dataclass(frozen=True)
class Form:
    """An operator in one language, for some dtypes of its first input."""

    emit: Any  # Text for torch, jnp and tf, OnnxWords for ONNX
    dtypes: tuple[str, ...]
    ranks: tuple[int, int] | None = None  # of the first input, where they are fewer than the operator's


@dataclass(frozen=True)
class Operator:
    """One entry of the operator table."""

    name: str
    infer: TypeRule
    draw: Callable[[Draw, TensorType], tuple[Sequence[Need], dict[str, Any]]]
    torch: Form | None = None
    onnx: Form | None = None
    jnp: Form | None = None
    tf: Form | None = None
    rank: tuple[int, int] = (0, 5)  # of the first input, both ends included
    fits: Callable[[TensorType], bool] = lambda first: True  # further conditions on the first input
    edges: tuple[float, ...] = ()  # inputs where the operator's behaviour changes: ends of its domain, jumps
    first_values: str = "any"  # what the first input must hold, as in `Need.values`
    view: bool = False  # in torch the result shares memory with the first input
    inplace: bool = False  # in torch the first input is overwritten
    differentiable: bool = True
    statistics: bool = False  # torch refuses it where a gradient could go to its running mean and variance

    def form(self, language: str) -> Form | None:
        """Return the operator's form in a language, or None."""
        return {"torch": self.torch, "onnx": self.onnx, "jnp": self.jnp, "tf": self.tf}[language]

    def takes(self, language: str, first: TensorType) -> bool:
        """True if the operator has a form in the language that accepts this first input."""
        form = self.form(language)
        if form is None or first.dtype not in form.dtypes:
            return False
        low, high = self.rank if form.ranks is None else form.ranks
        return low <= first.rank <= high and self.fits(first)


def emit_text(emit: Text, use: Use) -> str:
    """Return the Python text of a form, which is a template or a function."""
    if callable(emit):
        return emit(use)
    return emit.format(*use.inputs, **{key: repr(value) for key, value in use.attributes.items()})
