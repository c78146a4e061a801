"""Idioms with an explicit Expand before operators that broadcast on their own."""

from __future__ import annotations

from typing import Any

from driftline.generate.idioms.sketch import Sketch, idiom

_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_LOGICAL = ("And", "Or", "Xor")
_BITWISE = ("BitwiseAnd", "BitwiseOr", "BitwiseXor")


def _expanded(kind: str, dtype: str, first: bool, **attributes: Any) -> None:
    def drawn(s: Sketch) -> str:
        wide = s.node("Expand", s.input(1, 3, dtype=dtype), s.ints(2, 3))
        other = s.input(2, 3, dtype=dtype, values="positive" if kind in ("Pow", "Mod", "BitShift") else "any")
        operands = (wide, other) if first else (other, wide)
        return str(s.node(kind, *operands, **attributes))

    drawn.__name__ = f"expand_{'first' if first else 'second'}_{kind.lower()}"
    idiom(drawn)


for _first in (True, False):
    for _kind in _ARITHMETIC:
        _expanded(_kind, "float32", _first)
    for _kind in _LOGICAL:
        _expanded(_kind, "bool", _first)
    for _kind in _BITWISE:
        _expanded(_kind, "int32", _first)
    _expanded("Mod", "float32", _first, fmod=1)
    _expanded("BitShift", "uint8", _first, direction="LEFT")
