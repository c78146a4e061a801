"""A name of its own for each run of long work (a hunt, an audit), inside the JSON that describes it: two machines may
begin the same work in the same second, and numbers change when stores are merged.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

_KEY = "run"


def with_run_name(described: Mapping[str, Any]) -> dict[str, Any]:
    return {**described, _KEY: secrets.token_hex(8)}


def split_run_name(described: Any) -> tuple[dict[str, Any], str]:
    """The description as it was given, and the name; none in what an older release wrote. What is damaged describes
    nothing."""
    if not isinstance(described, Mapping):
        return {}, ""
    plain = {key: value for key, value in described.items() if key != _KEY}
    return plain, str(described.get(_KEY, ""))
