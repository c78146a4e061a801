"""The layer-by-layer view of failing targets, stored with their bugs."""

from __future__ import annotations

from typing import Any

from driftline.checking.checker import Checker
from driftline.checking.repeated import SeenIn
from driftline.checking.result import CheckResult
from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean
from driftline.diagnose.layers.look import TAPS, look_at
from driftline.events import Listener, ignore, says
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses

STEP = "layers"


def check_taps(taps: str) -> None:
    """Raise DriftlineError unless `taps` is a known way to choose values."""
    if taps not in TAPS:
        raise DriftlineError(f"--taps {taps}: give one of {', '.join(TAPS)}.{did_you_mean(taps, TAPS)}")


def look_inside(
    checker: Checker,
    store: Store,
    result: CheckResult,
    *,
    taps: str,
    listener: Listener = ignore,
) -> list[dict[str, Any]]:
    """Return a layer-by-layer view of every target that ran, as docs/json.md describes it, and store it with the
    bugs."""
    bodies = []
    for row in result.results:
        seen = row.seen_in or SeenIn(result.outcome.case, result.outcome.reference)
        view = look_at(checker, seen.case, row, seen.reference, taps=taps, listener=says(listener, str(row.target)))
        body = view.to_json()
        bodies.append(body)
        bug = result.bugs.get(row.target)
        if bug and body["layers"]:
            Diagnoses(store).save(bug.id, STEP, body)
    return bodies
