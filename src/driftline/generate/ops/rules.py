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
    """Choose no further inputs and no attributes."""
    return (), {}


def same(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    """Return the type of the first input. Raises `Invalid` if the attribute `axis` is out of range."""
    if isinstance(attributes.get("axis"), int):
        normal_axis(attributes["axis"], types[0].rank)
    return (types[0],)


def same_with(*names: str) -> TypeRule:
    """Like `same`, for operators with number attributes: rejects floats with integer tensors, since the result would be
    float."""

    def infer(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
        if types[0].dtype not in (*FLOATS, *COMPLEX) and any(isinstance(attributes[name], float) for name in names):
            raise Invalid("an integer with a fraction is a float")
        return same(types, attributes)

    return infer


def another(draw: Draw, first: TensorType) -> Drawn:
    """Choose a second input of the same dtype that broadcasts with the first."""
    return (Need(first.with_shape(draw.broadcastable(first.shape))),), {}


def broadcast_shapes(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape that several shapes broadcast to. Raises `Invalid` if they do not."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(sizes) > 1:
            raise Invalid(f"{shapes} do not broadcast")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def broadcast(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    """Return the type of all inputs broadcast together. Raises `Invalid` if their dtypes differ."""
    if len({t.dtype for t in types}) > 1:
        raise Invalid("the inputs differ in dtype")
    return (types[0].with_shape(broadcast_shapes([t.shape for t in types])),)


def giving(dtype: str, rule: TypeRule = broadcast) -> TypeRule:
    """Return a type rule like `rule`, with a fixed dtype of the result."""

    def infer(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
        return tuple(made.with_dtype(dtype) for made in rule(types, attributes))

    return infer


def choosing(**options: Callable[[Draw, TensorType], Any]) -> Callable[[Draw, TensorType], Drawn]:
    """Return a rule that chooses no further inputs, and each attribute with its own function."""

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
    """Return an operator whose forms have the dtypes `dtypes`, except those for which others are given."""

    def form(emit: Any, own: tuple[str, ...] | None) -> Form | None:
        return None if emit is None else Form(emit, dtypes if own is None else own)

    forms = form(torch, torch_dtypes), form(onnx, onnx_dtypes), form(jnp, jnp_dtypes)
    return Operator(name, infer, drawn, *forms, **more)


def more_of(count: int) -> Callable[[Draw, TensorType], Drawn]:
    """Return a rule that chooses `count` further inputs of the same dtype that broadcast with the first."""

    def drawn(draw: Draw, first: TensorType) -> Drawn:
        return tuple(Need(first.with_shape(draw.broadcastable(first.shape))) for _ in range(count)), {}

    return drawn


def both(
    needs: Callable[[Draw, TensorType], Drawn], **options: Callable[[Draw, TensorType], Any]
) -> Callable[[Draw, TensorType], Drawn]:
    """Return a rule that chooses the inputs of another rule and further attributes."""

    def drawn(draw: Draw, first: TensorType) -> Drawn:
        wanted, attributes = needs(draw, first)
        return wanted, {**attributes, **{name: chosen(draw, first) for name, chosen in options.items()}}

    return drawn


def one_of(*options: Any) -> Callable[[Draw, TensorType], Any]:
    """Return a function that chooses one of a few values for an attribute."""
    return lambda draw, first: draw.choice(options)


def any_axis(draw: Draw, first: TensorType) -> int:
    """Choose an axis, counted from either end."""
    return draw.axis(first.rank)


def normal_axis(axis: int, rank: int) -> int:
    """Return the axis counted from the front. Raises `Invalid` if it is out of range."""
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise Invalid(f"no axis {axis} in rank {rank}")
    return axis + rank if axis < 0 else axis


def not_empty(first: TensorType) -> bool:
    return first.size > 0


# What operators that only move values take: every dtype there is
MOVED_REAL = (*ALL, *WIDE_UNSIGNED)
MOVED = (*MOVED_REAL, *COMPLEX)


def replaced(shape: Sequence[int], axis: int, *sizes: int) -> tuple[int, ...]:
    """Return the shape with one axis replaced by any number of sizes."""
    return (*shape[:axis], *sizes, *shape[axis + 1 :])


def divisor(draw: Draw, number: int) -> int:
    """Return a random divisor of `number`."""
    return draw.choice([d for d in range(1, number + 1) if number % d == 0])


def swapped(rank: int, one: int, other: int) -> list[int]:
    """Return all axes in order, with two of them swapped."""
    axes = list(range(rank))
    axes[one], axes[other] = axes[other], axes[one]
    return axes
