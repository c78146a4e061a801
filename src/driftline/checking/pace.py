"""Estimates how long targets take, from a small record of past checks by backend, form and size of the program.

Without a record there is no estimate. The record is in the cache folder; a damaged one is ignored.
"""

from __future__ import annotations

import contextlib
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from driftline.backends.presets import rank_of
from driftline.core.config import cache_home
from driftline.core.private import private_folder, write_private
from driftline.core.program import Program
from driftline.core.target import Target

KEPT = 7  # durations for each key
SLOW = 15.0  # seconds, from which on a target is announced as slow
_SMALLEST = 1 << 20  # bytes of weights: all smaller programs have one size; each further size is four times as large


def estimate(target: Target, program: Program) -> float | None:
    """Return the median seconds that such a target took for such programs, or None without a record."""
    known = _read().get(_key(target, program))
    return statistics.median(known) if known else None


def expected(target: Target, program: Program) -> float | None:
    """Return the estimate if it is long enough to announce, else None."""
    seconds = estimate(target, program)
    return seconds if seconds is not None and seconds >= SLOW else None


def cheap_first(targets: Sequence[Target], program: Program) -> list[Target]:
    """Sort targets by expected duration: by the record, and by preset where there is none."""
    if len(targets) < 2:
        return list(targets)
    record = _read()

    def cost(target: Target) -> tuple[int, float]:
        known = record.get(_key(target, program))
        return rank_of(target.backend), statistics.median(known) if known else math.inf

    return sorted(targets, key=cost)


def note_durations(program: Program, taken: Iterable[tuple[Target, float]]) -> None:
    """Add the durations of targets to the record."""
    record = dict(_read())
    for target, seconds in taken:
        key = _key(target, program)
        record[key] = [*record.get(key, ()), round(seconds, 2)][-KEPT:]
    path = _path()
    with contextlib.suppress(OSError):
        private_folder(path.parent)
        write_private(path, [json.dumps(record).encode()])


def _key(target: Target, program: Program) -> str:
    size = max(0, math.ceil(math.log(max(program.weights, 1) / _SMALLEST, 4)))
    options = ":".join(sorted(key for key, _ in target.options))
    return f"{target.backend} {options} {program.form}:{program.framework} {size}"


def _read() -> Mapping[str, list[float]]:
    with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
        held = json.loads(_path().read_text())
        return {str(key): [float(seconds) for seconds in known] for key, known in held.items() if known}
    return {}


def _path() -> Path:
    return cache_home() / "durations.json"
