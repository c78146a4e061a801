"""All targets of a check against each other, with a memory: the matrix is kept with each bug that the check found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftline.campaign.across import IsaFamily
from driftline.checking.pairwise import pairwise
from driftline.checking.result import CheckResult
from driftline.core.target import Target
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses

STEP = "pairwise"


def compare_all(store: Store, result: CheckResult) -> dict[str, Any]:
    """The matrix as docs/json.md describes it."""
    return _compared(store, result, None, "")


def compare_families(store: Store, result: CheckResult, families: Sequence[IsaFamily]) -> list[dict[str, Any]]:
    """A matrix for each compiler: its instruction sets against each other."""
    name = result.outcome.case.runs.name
    return [
        _compared(store, result, family.members, f"{name} on {family.target}, by instruction set")
        for family in families
    ]


def _compared(store: Store, result: CheckResult, only: Sequence[Target] | None, title: str) -> dict[str, Any]:
    body = pairwise(result.outcome, only, title).to_json()
    for target, bug in result.bugs.items():
        if only is None or target in only:
            Diagnoses(store).save(bug.id, STEP, body)
    return body
