"""The constraint on dtypes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from driftline.core.text import did_you_mean
from driftline.hardware.constraint import Broken, Constraint, register_constraint, setting
from driftline.hardware.facts import NodeFacts

DTYPES = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "complex32", "complex64", "complex128", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8",
    "bool",
)  # fmt: skip


def dtype_name(value: Any) -> str:
    """Return the name of a dtype; torch dtypes are accepted too."""
    name = str(value).removeprefix("torch.")
    if name not in DTYPES:
        raise ValueError(f"{name!r} is not a dtype.{did_you_mean(name, DTYPES)} Known: {', '.join(DTYPES)}")
    return name


def _dtypes(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"must be a list of dtypes such as ['int8', 'bfloat16'], not {value!r}")
    names = sorted((dtype_name(one) for one in value), key=DTYPES.index)
    if not names:
        raise ValueError("must name at least one dtype")
    return tuple(dict.fromkeys(names))


@register_constraint("dtype")
@dataclass(frozen=True)
class DtypeConstraint(Constraint):
    """Every tensor must have one of these dtypes."""

    allowed_dtypes: tuple[str, ...] = setting(_dtypes, "the types that the device has", default=("float32",))

    def broken_by(self, node: NodeFacts) -> Iterator[Broken]:
        for tensor in self.tensors(node):
            if tensor.dtype not in self.allowed_dtypes:
                yield Broken(str(tensor), ", ".join(self.allowed_dtypes), self._nearest(tensor.dtype))

    def _nearest(self, dtype: str) -> str:
        """Return the allowed dtypes of the same kind (float, integer...), for a hint."""
        alike = [name for name in self.allowed_dtypes if _kind(name) == _kind(dtype)]
        return " or ".join(alike)


def _kind(dtype: str) -> str:
    stem = dtype.removeprefix("b").partition("_")[0].rstrip("0123456789")
    return "int" if stem == "uint" else stem
