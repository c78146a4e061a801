"""Preconditions that TVM documents and leaves to the caller: a step that breaks one is not taken, since it would be no
finding.

A requirement that is documented and that TVM checks needs no row: it refuses with `ScheduleError`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from driftline.schedules.drawing import ScheduleView
from driftline.schedules.functions import TensorFunction
from driftline.schedules.intrinsics import FATAL_FFI, tensorize_ends_the_process
from driftline.schedules.trace import ScheduleStep

_API = "tvm.s_tir.Schedule"
_ANYWHERE = (-1, -2)


@dataclass(frozen=True)
class Precondition:
    """A documented duty of the caller, its source in TVM, and a test whether a step meets it."""

    primitives: tuple[str, ...]
    duty: str
    source: str
    met: Callable[[ScheduleView, TensorFunction, ScheduleStep], bool]


def _one_block(view: ScheduleView, function: TensorFunction, step: ScheduleStep) -> bool:
    """True if no other block accesses the buffer in the step's way, and the block itself not in the other way."""
    if step.blocks[0] not in view.blocks:
        return True
    index = int(step.numbers[0] or 0)
    count = view.reads(step.blocks[0]) if step.word == "read" else view.writes(step.blocks[0])
    if index >= count:
        return True  # TVM refuses it
    readers, writers = view.accessing(step.blocks[0], step.word, index)
    if step.word == "read":
        return readers == [step.blocks[0]] and step.blocks[0] not in writers
    return writers == [step.blocks[0]] and step.blocks[0] not in readers


PRECONDITIONS = (
    Precondition(
        ("fuse_reduction_epilogue",),
        "the epilogue is linear: another one is applied in every iteration, which TVM calls a change of meaning",
        f"{_API}.fuse_reduction_epilogue: the warning",
        lambda view, function, step: function.bias_only,
    ),
    Precondition(
        ("transform_layout", "storage_align", "set_scope", "double_buffer"),
        "the buffer is not a parameter of the function: with its layout the interface changes",
        f"{_API}.transform_layout, .storage_align and .set_scope: the examples have intermediate buffers",
        lambda view, function, step: not view.writes_parameter(step.blocks[0]),
    ),
    Precondition(
        ("reindex",),
        "only one block reads, or writes, the buffer, and accesses it once",
        f"{_API}.reindex: requirements 1 and 2",
        _one_block,
    ),
    Precondition(
        ("compute_at", "reverse_compute_at"),
        "index names a possible insertion point; -1 and -2 always do",
        f"{_API}.compute_at: the parameter index",
        lambda view, function, step: len(step.numbers) < 2 or step.numbers[1] in _ANYWHERE,
    ),
    Precondition(
        ("software_pipeline",),
        "the loop is neither vectorized nor parallel: an iteration of a pipeline needs what the one before it made",
        f"{_API}.parallel and .vectorize: for loops whose iterations do not depend on each other",
        lambda view, function, step: view.in_turn(step.loops[0]),
    ),
    Precondition(
        ("software_pipeline",),
        "the members of a block are in one stage: what they read may be what they wrote one iteration before",
        f"{_API}.annotate: by its key",
        lambda view, function, step: view.keeps_blocks_together(step),
    ),
    Precondition(
        ("tensorize",),
        f"apache-tvm-ffi is none of {', '.join(FATAL_FFI)}, where every call ends the process",
        f"{_API}.tensorize: its example dies there; the pinned release works",
        lambda view, function, step: not tensorize_ends_the_process(),
    ),
)
# Duties that no step can break, since the drawer has no words for it.
NEVER_BROKEN = (
    (
        "software_pipeline",
        "every statement of the loop has a stage: it is the last step",
        f"{_API}.annotate: by its key",
    ),
    ("split", "disable_predication is not asked for", f"{_API}.split: the parameter disable_predication"),
    ("rfactor", "the reduction is associative: the numbers of argmax are distinct", f"{_API}.rfactor: first sentence"),
    ("reindex_cache_read", "the index map is one to one: it is a permutation", f"{_API}.reindex_cache_read: index_map"),
)


def broken_precondition(view: ScheduleView, function: TensorFunction, step: ScheduleStep) -> Precondition | None:
    """Return the precondition that a step does not meet, or None."""
    for one in PRECONDITIONS:
        if step.primitive in one.primitives and not one.met(view, function, step):
            return one
    return None
