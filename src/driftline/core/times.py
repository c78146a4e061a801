"""Parses times that users write: durations (`90s`, `1h30m`) and moments (`2026-01-31`, `2h` ago)."""

from __future__ import annotations

import re
import time

from driftline.core.errors import DriftlineError

_UNITS = {"s": 1, "m": 60, "h": 3600}


def parse_budget(text: str, option: str = "--budget") -> float:
    """Return the seconds of a duration such as `90s`, `10m`, `1h` or `1h30m`."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", text)
    if not parts or "".join(a + b for a, b in parts) != text:
        raise DriftlineError(f"{option} {text}: write a time with its unit, such as 90s, 10m or 1h30m.")
    seconds = sum(float(amount) * _UNITS[unit] for amount, unit in parts)
    if not seconds:
        raise DriftlineError(f"{option} {text}: give it some time, such as 90s, 10m or 1h30m.")
    return seconds


def parse_since(text: str, option: str = "--since") -> str:
    """Return a moment in the format of the store, from a date, a moment, or a time before now."""
    if ago := re.fullmatch(r"(\d{1,6})([mhd])", text):
        seconds = int(ago[1]) * {"m": 60, "h": 3600, "d": 86400}[ago[2]]
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(max(time.time() - seconds, 0)))
    if re.fullmatch(r"\d{4}-\d\d(-\d\d(T\d\d:\d\d(:\d\dZ?)?)?)?", text):
        return text
    raise DriftlineError(f"{option} {text}: write a date such as 2026-01-31, or how long ago, such as 30m, 2h or 7d.")
