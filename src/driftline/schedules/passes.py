"""Compiles a schedule with the plain pipeline of `backends/tvm_passes.py`, so that a single pass can be tried on it.

Functions that a schedule left alone fire few passes of TensorIR. Those with vector loops, unrolled and parallel ones,
copies, predicates and pipelines are what most of these passes are written for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftline.backends.tvm_passes import TENSOR_IR, PlainStages, TvmPass, known_passes, plain_functions, plain_steps
from driftline.core.errors import StoreError
from driftline.schedules.bounds import outside
from driftline.schedules.trace import Trace

# Buffers stand at the top of a function until this pass puts them where they are used. Iterations that run at the same
# time would share those that belong to one of them, and some passes look only at buffers that stand in a loop.
_PLACED = "s_tir.PlanAndUpdateBufferAllocationLocation"
_OF_PLACED_BUFFERS = ("s_tir.CompactBufferAllocation", "s_tir.InjectDoubleBuffer", "s_tir.InjectSoftwarePipeline")


def built_plainly(module: Any, trace: Trace) -> Any:
    """Compile a scheduled module with the passes of its trace."""
    return plain_functions(module, _passes(trace))


def outside_of(module: Any) -> str:
    """Return the name of a buffer that a schedule accesses out of bounds, or an empty string. The result then depends
    on the memory layout, and no pass is to blame."""
    return next(filter(None, map(outside, PlainStages(module, TENSOR_IR).flattened())), "")


def passes_changing(module: Any, trace: Trace, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return which of the passes change the scheduled module, and which raise on it."""
    placed = {name: bool(needed_by(trace.with_passes(name))) for name in names}
    stages = {
        always: PlainStages(module, TENSOR_IR, [_known(_PLACED)] if always else []) for always in set(placed.values())
    }
    changed, raised = [], []
    for name in names:
        try:
            if stages[placed[name]].changed_by(_known(name)):
                changed.append(name)
        except Exception:  # whether the pass is to blame is seen when it is compiled
            raised.append(name)
    return changed, raised


def pipeline_lines(trace: Trace) -> list[str]:
    """Return the lines of a script that define the pipeline `plain` with the passes of the trace."""
    return plain_steps(_passes(trace)).rstrip().splitlines()


def needed_by(trace: Trace) -> tuple[str, ...]:
    """Return the passes that the trace's own passes or parallel loops require."""
    passes = trace.passes or ()
    needed = "parallel" in trace.primitives or any(name in _OF_PLACED_BUFFERS for name in passes)
    return (_PLACED,) if needed and _PLACED not in passes else ()


def _passes(trace: Trace) -> list[TvmPass]:
    return [_known(name) for name in (*needed_by(trace), *(trace.passes or ()))]


def _known(name: str) -> TvmPass:
    found = known_passes().get(name)
    if found is None:
        raise StoreError(f"A trace has the pass {name!r}, which this release of Driftline does not try alone.")
    return found
