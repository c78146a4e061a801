"""Parses numbers of bytes such as `64 KiB`."""

from __future__ import annotations

import re

_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def parse_bytes(text: str) -> int:
    """Return the number of bytes of a text: `64 KiB` -> 65536. Raises ValueError, naming the units, for other texts."""
    found = _SIZE.fullmatch(text.strip())
    units = {unit.lower(): factor for unit, factor in _UNITS.items()}
    if not found or found[2].lower() not in units:
        raise ValueError(
            f"must be a number of bytes, such as 65536 or '64 KiB' (B, KiB, MiB, GiB, KB, MB, GB), not {text!r}"
        )
    return int(float(found[1]) * units[found[2].lower()])


def show_bytes(count: int) -> str:
    for unit in ("GiB", "MiB", "KiB"):
        if count >= _UNITS[unit]:
            return f"{count / _UNITS[unit]:.4g} {unit}"
    return f"{count} B"
