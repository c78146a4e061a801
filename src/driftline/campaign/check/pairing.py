"""Compares all targets of a check with each other and stores the matrix with each bug that the check found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from driftline.campaign.check.across import IsaFamily
from driftline.checking.pairwise import Pairwise, pairwise
from driftline.checking.result import CheckResult
from driftline.core.target import Target
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses

STEP = "pairwise"


def with_matrices(
    store: Store, result: CheckResult, *, all_targets: bool, families: Sequence[IsaFamily] = ()
) -> CheckResult:
    """Return the result with the requested matrices: of all targets, and of the instruction sets of each compiler."""
    name = result.outcome.case.runs.name
    return replace(
        result,
        pairwise=_compared(store, result, None, "") if all_targets else None,
        across=tuple(
            _compared(store, result, family.members, f"{name} on {family.target}, by instruction set")
            for family in families
        ),
    )


def _compared(store: Store, result: CheckResult, only: Sequence[Target] | None, title: str) -> Pairwise:
    matrix = pairwise(result.outcome, only, title)
    for target, bug in result.bugs.items():
        if only is None or target in only:
            Diagnoses(store).save(bug.id, STEP, matrix.to_json())
    return matrix
