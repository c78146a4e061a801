"""The strategy `symbolic`: inputs, found by solving, on which a small torch program overflows or returns NaN or
infinity.

Runs in a worker that has torch. Programs that are too large or cannot be traced, or for which the quick steps find
nothing, get the numbers of `boundary` instead.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from driftline.core.case import Inputs
from driftline.core.case_files import CaseFiles
from driftline.core.errors import DriftlineError
from driftline.core.program import Program
from driftline.core.tensors import Array, Arrays, is_float, load_tensors
from driftline.inputs.boundary import BoundaryValues
from driftline.inputs.plan import InputPlan
from driftline.inputs.strategies import generator

GOALS = "nan,inf,overflow"
STEPS = ("intervals", "specials")  # they take milliseconds and look at no clock: a hunt must be repeatable
LARGEST = 20  # operators
ELEMENTS = 4096  # of all inputs


class SolvedValues(BoundaryValues):
    """Chooses one of several solutions by the seed."""

    name = "symbolic"

    def draw(
        self, plans: Sequence[InputPlan], seed: str, edges: Sequence[float] = (), program: Program | None = None
    ) -> Inputs:
        drawn = super().draw(plans, seed, edges, program)
        if program is None or not _is_small(plans, program):
            return drawn
        found = _witnesses(program, drawn.arrays)
        if not found:
            return drawn
        chosen = found[int(generator(f"{self.name}/{seed}/chosen").integers(len(found)))]
        return Inputs({name: _as_planned(array, chosen[name]) for name, array in drawn.arrays.items()}, drawn.origin)


def _is_small(plans: Sequence[InputPlan], program: Program) -> bool:
    """True for small torch programs whose float inputs may hold any number."""
    free = [plan for plan in plans if is_float(plan.spec.dtype) and plan.values == "any"]
    size = sum(int(np.prod(plan.spec.shape, dtype=np.int64)) for plan in plans)
    return (
        program.framework == "torch"
        and program.form == "source"
        and len(program.operators) <= LARGEST
        and len(free) == len([plan for plan in plans if is_float(plan.spec.dtype)]) > 0
        and size <= ELEMENTS
    )


def _witnesses(program: Program, arrays: Arrays) -> list[Arrays]:
    from driftline.inputs.symbolic.requests import SearchRequest
    from driftline.inputs.symbolic.search import SliceSearch
    from driftline.inputs.symbolic.traced import trace
    from driftline.programs.opened import OpenedProgram

    finite = {name: _finite(array) for name, array in arrays.items()}  # where the search starts
    with tempfile.TemporaryDirectory() as folder:
        request = SearchRequest(CaseFiles(program, (), Path(folder)), GOALS, float("inf"), most=3)
        try:
            traced = trace(OpenedProgram(program, example=finite))
            rows = SliceSearch(traced, request, steps=STEPS, direct=True).run().rows
        except DriftlineError:
            return []
        return [load_tensors(row.inputs) for row in rows if row.inputs is not None]


def _finite(array: Array) -> Array:
    return np.where(np.isfinite(array), array, np.ones((), array.dtype)) if is_float(array.dtype.name) else array


def _as_planned(drawn: Array, found: Array) -> Array:
    """Return the solved values for float inputs, and the drawn values for all others."""
    return found.astype(drawn.dtype) if is_float(drawn.dtype.name) else drawn
