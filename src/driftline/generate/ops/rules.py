"""Type rules that many operators share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import (
    ALL,
    COMPLEX,
    FLOATS,
    WIDE_UNSIGNED,
    Draw,
    Form,
    Invalid,
    Need,
    Operator,
    TypeRule,
)

Drawn = tuple[Sequence[Need], dict[str, Any]]


def nothing(draw: Draw, first: TensorType) -> Drawn:
    """One input, no attributes."""
    return (), {}


def same(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    """The result is like the first input, which has the axis along which the operator works, if it names one."""
    if isinstance(attributes.get("axis"), int):
        normal_axis(attributes["axis"], types[0].rank)
    return (types[0],)


def same_with(*names: str) -> TypeRule:
    """The same for operators that take numbers: a fraction would make floats of integers."""

    def infer(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
        if types[0].dtype not in (*FLOATS, *COMPLEX) and any(isinstance(attributes[name], float) for name in names):
            raise Invalid("an integer with a fraction is a float")
        return same(types, attributes)

    return infer


def another(draw: Draw, first: TensorType) -> Drawn:
    """A second input of the same dtype that broadcasts with the first."""
    return (Need(first.with_shape(draw.broadcastable(first.shape))),), {}


def broadcast_shapes(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that several shapes broadcast to."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(sizes) > 1:
            raise Invalid(f"{shapes} do not broadcast")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def broadcast(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    """All inputs of one dtype, broadcast together."""
    if len({t.dtype for t in types}) > 1:
        raise Invalid("the inputs differ in dtype")
    return (types[0].with_shape(broadcast_shapes([t.shape for t in types])),)


def giving(dtype: str, rule: TypeRule = broadcast) -> TypeRule:
    """Another rule, with a fixed dtype of the result."""

    def infer(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
        return tuple(made.with_dtype(dtype) for made in rule(types, attributes))

    return infer


def choosing(**options: Callable[[Draw, TensorType], Any]) -> Callable[[Draw, TensorType], Drawn]:
    """No further inputs; each attribute drawn by its own function."""

    def drawn(draw: Draw, first: TensorType) -> Drawn:
        return (), {name: chosen(draw, first) for name, chosen in options.items()}

    return drawn


IEEE = ("float32", "float64", "float16")  # the floats of older ONNX operators


def row(
    name: str,
    infer: TypeRule,
    drawn: Callable[[Draw, TensorType], Drawn],
    torch: Any = None,
    onnx: Any = None,
    jnp: Any = None,
    dtypes: tuple[str, ...] = FLOATS,
    torch_dtypes: tuple[str, ...] | None = None,
    onnx_dtypes: tuple[str, ...] | None = None,
    jnp_dtypes: tuple[str, ...] | None = None,
    **more: Any,
) -> Operator:
    """An operator whose forms share their dtypes, but for those that are named."""

    def form(emit: Any, own: tuple[str, ...] | None) -> Form | None:
        return None if emit is None else Form(emit, dtypes if own is None else own)

    forms = form(torch, torch_dtypes), form(onnx, onnx_dtypes), form(jnp, jnp_dtypes)
    return Operator(name, infer, drawn, *forms, **more)


def more_of(count: int) -> Callable[[Draw, TensorType], Drawn]:
    """So many further inputs of the same dtype that broadcast with the first."""

    def drawn(draw: Draw, first: TensorType) -> Drawn:
        return tuple(Need(first.with_shape(draw.broadcastable(first.shape))) for _ in range(count)), {}

    return drawn


def both(
    needs: Callable[[Draw, TensorType], Drawn], **options: Callable[[Draw, TensorType], Any]
) -> Callable[[Draw, TensorType], Drawn]:
    """The inputs of another rule, and attributes."""

    def drawn(draw: Draw, first: TensorType) -> Drawn:
        wanted, attributes = needs(draw, first)
        return wanted, {**attributes, **{name: chosen(draw, first) for name, chosen in options.items()}}

    return drawn


def one_of(*options: Any) -> Callable[[Draw, TensorType], Any]:
    """An attribute with a few values."""
    return lambda draw, first: draw.choice(options)


def any_axis(draw: Draw, first: TensorType) -> int:
    """An attribute that is an axis, counted from either end."""
    return draw.axis(first.rank)


def normal_axis(axis: int, rank: int) -> int:
    """An axis counted from the front; raises `Invalid` when there is none such."""
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise Invalid(f"no axis {axis} in rank {rank}")
    return axis + rank if axis < 0 else axis


def not_empty(first: TensorType) -> bool:
    return first.size > 0


# What operators that only move values take: every dtype there is
MOVED_REAL = (*ALL, *WIDE_UNSIGNED)
MOVED = (*MOVED_REAL, *COMPLEX)


def replaced(shape: Sequence[int], axis: int, *sizes: int) -> tuple[int, ...]:
    """A shape with other sizes, any number of them, in place of one axis."""
    return (*shape[:axis], *sizes, *shape[axis + 1 :])


def divisor(draw: Draw, number: int) -> int:
    return draw.choice([d for d in range(1, number + 1) if number % d == 0])


def swapped(rank: int, one: int, other: int) -> list[int]:
    """All axes in order, but for two."""
    axes = list(range(rank))
    axes[one], axes[other] = axes[other], axes[one]
    return axes
