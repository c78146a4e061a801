"""Complex numbers and Fourier transforms. They have no ONNX forms, since compilers do not support them there."""

from __future__ import annotations

from typing import Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import COMPLEX, Attributes, Draw, Form, Invalid, Need, Operator, Types
from driftline.generate.ops.rules import (
    Drawn,
    another,
    any_axis,
    broadcast,
    choosing,
    normal_axis,
    not_empty,
    nothing,
    same,
)

_REAL = ("float32", "float64")
_PART = {"complex64": "float32", "complex128": "float64"}
_WHOLE = {part: whole for whole, part in _PART.items()}


def _parts(types: Types, attributes: Attributes) -> Types:
    return (types[0].with_dtype(_PART[types[0].dtype]),)


def _wholes(types: Types, attributes: Attributes) -> Types:
    (made,) = broadcast(types, attributes)
    return (made.with_dtype(_WHOLE[made.dtype]),)


def _pairs(types: Types, attributes: Attributes) -> Types:
    return (TensorType(_PART[types[0].dtype], (*types[0].shape, 2)),)


def _from_pairs(types: Types, attributes: Attributes) -> Types:
    if not types[0].rank or types[0].shape[-1] != 2:
        raise Invalid("the last axis holds two parts")
    return (TensorType(_WHOLE[types[0].dtype], types[0].shape[:-1]),)


def _twin(draw: Draw, first: TensorType) -> Drawn:
    return (Need(first),), {}


def _half(types: Types, attributes: Attributes) -> Types:
    axis = normal_axis(attributes["axis"], types[0].rank)
    shape = list(types[0].shape)
    shape[axis] = shape[axis] // 2 + 1
    return (TensorType(_WHOLE[types[0].dtype], tuple(shape)),)


def _halved(types: Types, attributes: Attributes) -> Types:
    axis = normal_axis(attributes["axis"], types[0].rank)
    shape = list(types[0].shape)
    if attributes["size"] // 2 + 1 != shape[axis]:
        raise Invalid("the size does not fit the half spectrum")
    shape[axis] = attributes["size"]
    return (TensorType(_PART[types[0].dtype], tuple(shape)),)


def _draw_irfft(draw: Draw, first: TensorType) -> Drawn:
    axes = [axis for axis, size in enumerate(first.shape) if size > 1]
    axis = draw.choice(axes)
    return (), {"axis": axis, "size": 2 * (first.shape[axis] - 1) + draw.integer(0, 1)}


def _transform(name: str, infer: Any, dtypes: tuple[str, ...]) -> Operator:
    how = choosing(axis=any_axis, norm=lambda draw, first: draw.choice(("backward", "ortho", "forward")))
    text = "{module}.fft.{name}({{0}}, axis={{axis}}, norm={{norm}})"
    torch = text.format(module="torch", name=name).replace("axis=", "dim=")
    jnp = text.format(module="jnp", name=name)
    return Operator(name, infer, how, Form(torch, dtypes), None, Form(jnp, dtypes), rank=(1, 4), fits=not_empty)


def _row(
    name: str, infer: Any, draw: Any, torch: str, jnp: str, dtypes: tuple[str, ...] = COMPLEX, **more: Any
) -> Operator:
    return Operator(name, infer, draw, Form(torch, dtypes), None, Form(jnp, dtypes), **more)


OPERATORS = [
    _row("complex_from_parts", _wholes, _twin, "torch.complex({0}, {1})", "lax.complex({0}, {1})", _REAL),
    _row(
        "polar", _wholes, _twin, "torch.polar({0}, {1})", "lax.complex({0} * jnp.cos({1}), {0} * jnp.sin({1}))", _REAL,
    ),
    _row("real", _parts, nothing, "torch.real({0})", "jnp.real({0})", view=True),
    _row("imag", _parts, nothing, "torch.imag({0})", "jnp.imag({0})", view=True),
    _row("complex_abs", _parts, nothing, "torch.abs({0})", "jnp.abs({0})"),
    _row("angle", _parts, nothing, "torch.angle({0})", "jnp.angle({0})"),
    _row("conj", same, nothing, "torch.conj({0})", "jnp.conj({0})", view=True),
    _row("conj_physical", same, nothing, "torch.conj_physical({0})", "jnp.conj({0})"),
    _row("complex_add", broadcast, another, "torch.add({0}, {1})", "jnp.add({0}, {1})"),
    _row("complex_sub", broadcast, another, "torch.sub({0}, {1})", "jnp.subtract({0}, {1})"),
    _row("complex_mul", broadcast, another, "torch.mul({0}, {1})", "jnp.multiply({0}, {1})"),
    _row("complex_exp", same, nothing, "torch.exp({0})", "jnp.exp({0})"),
    _row("complex_neg", same, nothing, "torch.neg({0})", "jnp.negative({0})"),
    _row(
        "view_as_real", _pairs, nothing, "torch.view_as_real({0}.resolve_conj())",
        "jnp.stack([jnp.real({0}), jnp.imag({0})], -1)", rank=(0, 4), view=True,
    ),
    _row(
        "view_as_complex", _from_pairs, nothing, "torch.view_as_complex({0}.contiguous())",
        "lax.complex({0}[..., 0], {0}[..., 1])", _REAL,
        rank=(1, 4), fits=lambda first: first.shape[-1:] == (2,), view=True,
    ),
    _transform("fft", same, COMPLEX),
    _transform("ifft", same, COMPLEX),
    _transform("rfft", _half, _REAL),
    _row(
        "irfft", _halved, _draw_irfft, "torch.fft.irfft({0}, {size}, {axis})", "jnp.fft.irfft({0}, {size}, {axis})",
        rank=(1, 4), fits=lambda first: first.size > 0 and max(first.shape) > 1,
    ),
]  # fmt: skip
