"""The arithmetic of a device, where it differs from the processor's; `compute.py` imitates it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from driftline.hardware.constraint import switch, whole_number

_WIDTHS = ("bfloat16", "float16", "float32")


def _width(value: Any) -> str:
    name = str(value).removeprefix("torch.")
    if name not in _WIDTHS:
        raise ValueError(f"must be one of {', '.join(_WIDTHS)}, not {value!r}")
    return name


@dataclass(frozen=True)
class DeviceArithmetic:
    """The section `[compute]` of a profile. Unset fields mean the processor's own arithmetic."""

    accumulate: str = ""  # the type in which partial sums of products and reductions are kept
    block: int = 16  # how many terms are summed exactly before the partial sum is rounded
    storage: str = ""  # the type in which float32 tensors lie: every result is rounded to it
    flush_to_zero: bool = False  # subnormal numbers, read or made, are zero
    saturate: bool = False  # integers that overflow stay at the largest or smallest number

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            if value != one.default:
                try:
                    object.__setattr__(self, one.name, READERS[one.name](value))
                except ValueError as error:
                    raise ValueError(f"{one.name}: {error}") from None

    def __bool__(self) -> bool:
        return self != DeviceArithmetic(block=self.block)


READERS = {
    "accumulate": _width,
    "block": whole_number,
    "storage": _width,
    "flush_to_zero": switch,
    "saturate": switch,
}
