"""Operators on integers: division with its two roundings, bits, shifts.

Divisors are never zero, and shift amounts are below the width. The smallest number divided by -1 overflows, which is
undefined and crashes torch, so the two must not be drawn together.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import INTEGERS, WIDE_UNSIGNED, Draw, Need
from driftline.generate.ops.rules import Drawn, broadcast, choosing, nothing, one_of, row, same

_EVERY = (*INTEGERS, *WIDE_UNSIGNED)
_UNSIGNED = ("uint8", *WIDE_UNSIGNED)
_BITS = (*INTEGERS, "bool")


def _divisor(draw: Draw, first: TensorType) -> Drawn:
    return (Need(first.with_shape(draw.broadcastable(first.shape)), values="nonzero"),), {}


def _amount(draw: Draw, first: TensorType) -> Drawn:
    width = 8 if first.dtype.endswith("t8") else int(first.dtype[-2:])
    return (Need(first.with_shape(draw.broadcastable(first.shape)), values=f"below:{width}"),), {}


def _exponent(draw: Draw, first: TensorType) -> Drawn:
    return (Need(first.with_shape(draw.broadcastable(first.shape)), values="below:6"),), {}


def _pair(draw: Draw, first: TensorType) -> Drawn:
    return (Need(first.with_shape(draw.broadcastable(first.shape))),), {}


def _bitwise(name: str) -> Any:
    """Return a form with ONNX's bitwise operator for integers, or its logical operator for bool."""
    return lambda w, u: w.node(name if u.types[0].dtype == "bool" else f"Bitwise{name}", *u.inputs)


_divide = partial(row, infer=broadcast, drawn=_divisor, differentiable=False)
_shift = partial(row, infer=broadcast, drawn=_amount, differentiable=False)
_bits = partial(row, infer=broadcast, drawn=_pair, differentiable=False)

OPERATORS = [
    _divide("div_trunc", torch='torch.div({0}, {1}, rounding_mode="trunc")', onnx="Div",
            jnp="lax.div(*jnp.broadcast_arrays({0}, {1}))", dtypes=_EVERY, torch_dtypes=INTEGERS),
    _divide("div_floor", torch='torch.div({0}, {1}, rounding_mode="floor")', jnp="jnp.floor_divide({0}, {1})",
            dtypes=INTEGERS),
    _divide("int_fmod", torch="torch.fmod({0}, {1})", onnx=lambda w, u: w.node("Mod", *u.inputs, fmod=1),
            jnp="jnp.fmod({0}, {1})", dtypes=_EVERY, torch_dtypes=INTEGERS),
    _divide("int_remainder", torch="torch.remainder({0}, {1})", onnx="Mod", jnp="jnp.remainder({0}, {1})",
            dtypes=_EVERY, torch_dtypes=INTEGERS),
    row("div_floor_scalar", same, choosing(scalar=one_of(1, 2, 3, 4, 7, 8)), "{0} // {scalar}", None, "{0} // {scalar}",
        INTEGERS, differentiable=False),
    row("remainder_scalar", same, choosing(scalar=one_of(1, 2, 3, 4, 7, 8)), "{0} % {scalar}",
        lambda w, u: w.node("Mod", u.inputs[0], w.scalar(u["scalar"], u.types[0].dtype)), "{0} % {scalar}",
        INTEGERS, differentiable=False),
    row("int_pow", broadcast, _exponent, "torch.pow({0}, {1})", "Pow", "jnp.power({0}, {1})", INTEGERS,
        onnx_dtypes=("int32", "int64"), differentiable=False),
    _bits("bitwise_and", torch="{0} & {1}", onnx=_bitwise("And"), jnp="{0} & {1}",
          dtypes=(*_EVERY, "bool"), torch_dtypes=_BITS),
    _bits("bitwise_or", torch="{0} | {1}", onnx=_bitwise("Or"), jnp="{0} | {1}",
          dtypes=(*_EVERY, "bool"), torch_dtypes=_BITS),
    _bits("bitwise_xor", torch="{0} ^ {1}", onnx=_bitwise("Xor"), jnp="{0} ^ {1}",
          dtypes=(*_EVERY, "bool"), torch_dtypes=_BITS),
    row("bitwise_not", same, nothing, "~{0}", _bitwise("Not"), "~{0}",
        (*_EVERY, "bool"), torch_dtypes=_BITS, differentiable=False),
    _shift("left_shift", torch="{0} << {1}", onnx=lambda w, u: w.node("BitShift", *u.inputs, direction="LEFT"),
           jnp="{0} << {1}", dtypes=INTEGERS, onnx_dtypes=_UNSIGNED, jnp_dtypes=_EVERY),
    _shift("right_shift", torch="{0} >> {1}", onnx=lambda w, u: w.node("BitShift", *u.inputs, direction="RIGHT"),
           jnp="{0} >> {1}", dtypes=INTEGERS, onnx_dtypes=_UNSIGNED, jnp_dtypes=_EVERY),
    # torch alone: jnp.gcd does not end when it meets the least number
    _bits("gcd", torch="torch.gcd({0}, {1})", dtypes=INTEGERS),
    _bits("lcm", torch="torch.lcm({0}, {1})", dtypes=INTEGERS),
]  # fmt: skip
