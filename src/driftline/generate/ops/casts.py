"""Conversion between dtypes. Out of range, float to integer is undefined everywhere; the oracle takes that into
account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import ALL, WIDE_UNSIGNED, Draw
from driftline.generate.ops.rules import Drawn, row

_EVERY = (*ALL, *WIDE_UNSIGNED)


def _to(draw: Draw, first: TensorType) -> Drawn:
    return (), {"to": draw.choice([dtype for dtype in ALL if dtype != first.dtype])}


def _to_unsigned(draw: Draw, first: TensorType) -> Drawn:
    return (), {"to": draw.choice([dtype for dtype in WIDE_UNSIGNED if dtype != first.dtype])}


def _rule(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    return (types[0].with_dtype(attributes["to"]),)


def _jnp(use: Any) -> str:
    dtype = "bool_" if use["to"] == "bool" else use["to"]
    return f"{use.inputs[0]}.astype(jnp.{dtype})"


OPERATORS = [
    row("cast", _rule, _to, lambda u: f"{u.inputs[0]}.to(torch.{u['to']})", lambda w, u: w.cast(u.inputs[0], u["to"]),
        _jnp, _EVERY),
    row("cast_unsigned", _rule, _to_unsigned, lambda u: f"{u.inputs[0]}.to(torch.{u['to']})",
        lambda w, u: w.cast(u.inputs[0], u["to"]), _jnp, _EVERY, differentiable=False),
]  # fmt: skip
