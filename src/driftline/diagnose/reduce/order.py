"""Define "smaller" as one total order, so that the result does not depend on the path of the search."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

# The simplest dtype first: float32 and its companions, then wide dtypes, then rare ones.
_DTYPES = (
    "float32", "int32", "bool", "int64", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "complex64",
    "uint16", "uint32", "uint64", "complex128", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip


@dataclass(frozen=True, order=True)
class ProgramSize:
    """The size of a program, compared from the first field to the last."""

    operators: int
    ends: int  # inputs and outputs; a constant counts twice, since it says that its value matters
    elements: int  # of inputs and constants
    axes: int
    dtypes: int  # ranks of their dtypes: 0 is float32
    attributes: int
    layouts: int  # inputs that do not lie element after element
    values: int  # digits that a reader has to look at

    def to_json(self) -> dict[str, int]:
        return asdict(self)

    def __str__(self) -> str:
        words = f"{self.operators} operator{'s' * (self.operators != 1)}, {self.elements:,} element"
        return words + "s" * (self.elements != 1)


def dtype_rank(dtype: str) -> int:
    """Return the rank of a dtype, 0 for the simplest (float32)."""
    return _DTYPES.index(dtype) if dtype in _DTYPES else len(_DTYPES)


def attribute_weight(value: Any) -> int:
    """Measure how much there is to read in the attributes of a node; 0 and 1 count less than other numbers."""
    if isinstance(value, dict):
        return sum(1 + attribute_weight(item) for key, item in value.items() if not key.startswith("$"))
    if isinstance(value, (list, tuple)):
        return sum(1 + attribute_weight(item) for item in value)
    if isinstance(value, bool) or value is None:
        return 1
    if isinstance(value, int):
        return 1 if value in (0, 1) else 2 + len(str(abs(value)))
    if isinstance(value, float):
        return 2 + len(repr(value))
    return 2
