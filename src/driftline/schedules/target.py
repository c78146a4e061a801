"""TVM's target with and without LLVM's optimisations."""

from __future__ import annotations

import json
from typing import Any


def unoptimised(target: str) -> str | dict[str, Any]:
    """Return the target without LLVM's optimisations: enough to judge results, and three times as fast to build.
    Targets that are not LLVM, or that are written as a tag, are returned unchanged."""
    told = _read(target)
    return {**told, "opt-level": 0} if told.get("kind") == "llvm" else target


def is_unoptimised(target: str) -> bool:
    return _read(target).get("opt-level") == 0


def _read(target: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(target) if target.startswith("{") else {"kind": target}
    return told
