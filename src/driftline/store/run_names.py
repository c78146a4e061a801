"""Unique names for runs of long work (hunts, audits), stored in the JSON that describes them: two machines may begin
the same work in the same second, and numbers change in a merge.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

_KEY = "run"


def with_run_name(described: Mapping[str, Any]) -> dict[str, Any]:
    return {**described, _KEY: secrets.token_hex(8)}


def split_run_name(described: Any) -> tuple[dict[str, Any], str]:
    """Split a description into the original one and the run's name, which is empty if an older release wrote it. A
    damaged description becomes empty."""
    if not isinstance(described, Mapping):
        return {}, ""
    plain = {key: value for key, value in described.items() if key != _KEY}
    return plain, str(described.get(_KEY, ""))
