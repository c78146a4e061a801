"""Results as lines of JSON, for benchmarks that are stopped and gone on with; what a kill left of a line is no line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file; none where there is no file yet."""
    return [made for line in path.read_text().splitlines() if (made := _whole(line))] if path.exists() else []


def append_line(path: Path, told: Mapping[str, Any]) -> None:
    """Write a line behind the others, also where the last one has no end."""
    with path.open("ab+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        torn = file.read(1) not in (b"", b"\n")
        file.write(b"\n" * torn + json.dumps(told).encode() + b"\n")


def _whole(line: str) -> dict[str, Any] | None:
    try:
        made = json.loads(line)
    except ValueError:
        return None
    return made if isinstance(made, dict) else None
