"""All targets of a check against each other, with a memory: the matrix is kept with each bug that the check found."""

from __future__ import annotations

from typing import Any

from driftline.checking.pairwise import pairwise
from driftline.checking.result import CheckResult
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses

STEP = "pairwise"


def compare_all(store: Store, result: CheckResult) -> dict[str, Any]:
    """The matrix as docs/json.md describes it."""
    body = pairwise(result.outcome).to_json()
    for bug in result.bugs.values():
        Diagnoses(store).save(bug.id, STEP, body)
    return body
