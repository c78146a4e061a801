"""Converts TVM's targets to the format of TVM 0.27: `llvm` or JSON, no longer `llvm -mcpu=generic`."""

from __future__ import annotations

import json
import re
from typing import Any

from driftline.core.errors import DriftlineError

_OPTION = re.compile(r"--?([\w-]+)=(\S+)")
_LISTS = ("mattr", "keys", "libs")


def read_target(text: str) -> str:
    """Return the target in TVM's format: a name, or JSON."""
    kind, *options = text.split() or [""]
    if text.lstrip().startswith("{") or not options:
        return text.strip()
    told: dict[str, Any] = {"kind": kind}
    for option in options:
        found = _OPTION.fullmatch(option)
        if not found:
            raise DriftlineError(
                f"TVM's target {text!r}: {option} is no option; write them as in 'llvm -mcpu=generic'."
            )
        name, value = found.groups()
        told[name] = value.split(",") if name in _LISTS else int(value) if value.isdecimal() else value
    return json.dumps(told)
