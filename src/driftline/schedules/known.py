"""Known defects of TVM's schedule primitives, each with a witness that shows it and a neighbour that is right.

They annotate bugs that a hunt finds, and never identify or hide one. A defect explains a failing step by its primitive
and message, what cannot be built by its message and all steps of the witness among its own, a crash only by the very
steps of the witness, a wrong result by these on a function of the same kind.
The files of `causes/` have programs of frameworks as witnesses, which a schedule is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from driftline.core.execution import Stage
from driftline.core.verdict import Kind
from driftline.schedules.functions import function_of
from driftline.schedules.trace import LoopAt, ScheduleStep, Trace

_NM, _NMK = {"n": 3, "m": 5}, {"n": 3, "m": 4, "k": 5}


@dataclass(frozen=True)
class ScheduleDefect:
    """What is wrong, how it shows, the smallest schedule that shows it, and one close by that is right."""

    name: str
    title: str
    kind: Kind
    witness: Trace
    neighbour: Trace
    message: str = ""  # a regular expression; numbers are written as #
    stage: Stage = Stage.SCHEDULE
    seen: str = "0.27.0.post1"

    def explains(self, trace: Trace, kind: str, stage: str, message: str) -> bool:
        """Does it explain a failure that was reduced to this trace?"""
        if (kind, stage) != (self.kind, self.stage) or not trace.steps:
            return False
        if self.message:
            same = trace.primitives[-1] == self.witness.primitives[-1]
            if self.stage == Stage.COMPILE:
                same = same and _in_this_order(self.witness.primitives, trace.primitives)
            return same and re.search(self.message, message) is not None
        same_function = self.kind == Kind.CRASH or function_of(trace).kind == function_of(self.witness).kind
        return same_function and trace.primitives == self.witness.primitives


def _in_this_order(few: tuple[str, ...], many: tuple[str, ...]) -> bool:
    """Are all of the few among the many, in the same order?"""
    left = iter(many)
    return all(one in left for one in few)


def defect_of(trace: Trace, kind: str, stage: str, message: str) -> ScheduleDefect | None:
    """The known defect that explains a reduced failure, if there is one."""
    return next((one for one in DEFECTS if one.explains(trace, kind, stage, message)), None)


def _step(primitive: str, *blocks: str, at: tuple[tuple[str, int], ...] = (), by: tuple[int | None, ...] = (),
          word: str = "") -> ScheduleStep:  # fmt: skip
    return ScheduleStep(primitive, blocks, tuple(LoopAt(block, index) for block, index in at), by, word)


def _moved(primitive: str, block: str, under: str, loop: int) -> ScheduleStep:
    return _step(primitive, block, at=((under, loop),), by=(0, -1))


def _flat(block: str) -> ScheduleStep:
    """What it writes, with rows of four numbers, as one row."""
    return _step("transform_layout", block, by=(0, 2, 0, 4), word="fuse")


_REVERSED = Trace("two_steps", _NM, (_moved("reverse_compute_at", "Y", "P", 0),))
_BLOCKIZED = Trace("two_steps", _NM, (_step("blockize", "P", "Y"),))
_CACHE_INDEX = _step("cache_index", "Y", word="global")
_FACTORED = (_step("split", at=(("Y", 1),), by=(None, 3)), _step("rfactor", at=(("Y", 1),), by=(0,)))
_ROWS_IN_PAIRS = (_step("split", at=(("Y", 0),), by=(None, 2)), _step("rfactor", at=(("Y", 2),), by=(0,)))
_PARTITION = _step("loop_partition", at=(("P", 0),), by=(1, None))
_COLUMNS_IN_PAIRS = _step("split", at=(("Y", 1),), by=(None, 2))
_ROWS_IN_THREES = _step("split", at=(("Y", 0),), by=(1, 3))
_IN_ORDER = _step("reindex_cache_write", "Y", by=(0, 0, 1), word="permute")
_TRANSPOSED = _step("reindex_cache_read", "Y", by=(0, 1, 0), word="permute")
_WRITE_LATER = _step("cache_write", "Y", by=(0,), word="global")
_SPLIT_AGAIN = (_step("fuse", at=(("Y", 0), ("Y", 1))), _step("split", at=(("Y", 0),), by=(3, None)))
_REPEATED = _moved("compute_at", "M", "Y", 2)
_EPILOGUE = _step("fuse_reduction_epilogue", "M", "Y")
_BEYOND = _step("split", at=(("Y", 1),), by=(1, 3))  # of two columns: the third needs a predicate
_PARTS = {"n": 5, "m": 5}
_FUSED_AND_SPLIT = (_step("fuse", at=(("P", 0), ("P", 1))), _step("split", at=(("P", 0),), by=(None, 3)))
_HALVES = (_step("split", at=(("Y", 1),), by=(2, None, 2)), _step("rfactor", at=(("Y", 1),), by=(0,)))
_TENSORIZED = (_WRITE_LATER, _step("tensorize", at=(("Y_global", 1),), by=(5,), word="copy"))
_BLOCKIZED_LOOP = Trace("scale", _NM, (_step("blockize", at=(("Y", 1),)),))

DEFECTS = (
    ScheduleDefect(
        "loop-partition-initialises-again",
        "loop_partition of a reduction loop initialises the sum again in every part",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("row_sum", _NM, (_step("loop_partition", at=(("Y", 1),), by=(1, None)),)),
        neighbour=Trace("row_sum", _NM, (_step("loop_partition", at=(("Y", 0),), by=(1, None)),)),
    ),
    ScheduleDefect(
        "blockize-keeps-the-named-order",
        "blockize of several blocks keeps the order in which they are named, also where the first reads what the second"
        " writes",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("two_steps", _NM, (_step("blockize", "Y", "P"),)),
        neighbour=_BLOCKIZED,
    ),
    ScheduleDefect(
        "buffer-inside-a-vectorised-loop",
        "a buffer that is made and used inside a vectorised loop becomes one number for all lanes",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("two_steps", _NM, (_step("vectorize", at=(("Y", 1),)), _moved("compute_at", "P", "Y", 1))),
        neighbour=Trace("two_steps", _NM, (_step("vectorize", at=(("Y", 1),)), _moved("compute_at", "P", "Y", 0))),
    ),
    ScheduleDefect(
        "reverse-compute-at-behind-consumers",
        "reverse_compute_at takes a block without producers and puts it behind its consumers",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("softmax", _NM, (_moved("reverse_compute_at", "M", "Y", 0),)),
        neighbour=_REVERSED,
    ),
    ScheduleDefect(
        "cache-write-of-a-blockized-reduction",
        "cache_write of a reduction whose inner loop was blockized gives other sums",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace(
            "row_sum", _NM,
            (_step("blockize", at=(("Y", 1),)), _step("cache_write", "Y", by=(0,), word="local")),
        ),
        neighbour=Trace("row_sum", _NM, (_step("cache_write", "Y", by=(0,), word="local"),)),
    ),
    ScheduleDefect(
        "rfactor-loses-a-predicate",
        "rfactor leaves the predicate of a spatial loop out of the block that adds the parts up, which then writes"
        " outside the result",
        Kind.OUT_OF_BOUNDS, stage=Stage.RUN,
        # Where the parts are few, LLVM knows that they end there and takes the writes out.
        witness=Trace("row_sum", {"n": 17, "m": 17}, _ROWS_IN_PAIRS),
        neighbour=Trace("row_sum", {"n": 16, "m": 17}, _ROWS_IN_PAIRS),
    ),
    ScheduleDefect(
        "compute-at-loses-a-predicate",
        "compute_at of a factored reduction whose loop has a predicate adds up numbers beyond the end",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("row_sum", _NM, (*_FACTORED, _moved("compute_at", "Y_rf", "Y", 1))),
        neighbour=Trace("row_sum", {"n": 3, "m": 6}, (*_FACTORED, _moved("compute_at", "Y_rf", "Y", 1))),
    ),
    ScheduleDefect(
        "reverse-compute-at-loses-a-predicate",
        "reverse_compute_at of a factored reduction whose loop has a predicate adds up numbers beyond the end",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("row_sum", _NM, (*_FACTORED, _moved("reverse_compute_at", "Y_rf", "Y", 1))),
        neighbour=Trace("row_sum", {"n": 3, "m": 6}, (*_FACTORED, _moved("reverse_compute_at", "Y_rf", "Y", 1))),
    ),
    ScheduleDefect(
        "blockize-loses-a-predicate",
        "blockize of a fused loop leaves out the predicate that a split beyond the extent needs",
        Kind.OUT_OF_BOUNDS, stage=Stage.RUN,
        witness=Trace(
            "scale", {"n": 2, "m": 2},
            (_BEYOND, _step("fuse", at=(("Y", 0), ("Y", 1))), _step("blockize", at=(("Y", 0),))),
        ),
        neighbour=Trace("scale", {"n": 2, "m": 2}, (_BEYOND, _step("blockize", at=(("Y", 0),)))),
    ),
    ScheduleDefect(
        "blockize-inside-a-partition",
        "blockize of a part that loop_partition made forgets the loops around it, and computes the first row only",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace(
            "scale", _NM,
            (_step("loop_partition", at=(("Y", 1),), by=(1, None)), _step("blockize", at=(("Y_j1", 0),))),
        ),
        neighbour=Trace(
            "scale", _NM,
            (_step("loop_partition", at=(("Y", 0),), by=(1, None)), _step("blockize", at=(("Y_i1", 0),))),
        ),
    ),
    ScheduleDefect(
        "reindex-cache-write-loses-a-predicate",
        "reindex_cache_write leaves the block's predicate out of the stage that it makes, which writes outside the"
        " result",
        Kind.OUT_OF_BOUNDS, stage=Stage.RUN,
        witness=Trace("scale", {"n": 17, "m": 17}, (_COLUMNS_IN_PAIRS, _IN_ORDER)),
        neighbour=Trace("scale", {"n": 17, "m": 16}, (_COLUMNS_IN_PAIRS, _IN_ORDER)),
    ),
    ScheduleDefect(
        "reindex-cache-read-loses-a-predicate",
        "reindex_cache_read leaves the block's predicate out of the stage that it makes, which copies what is outside",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("scale", {"n": 2, "m": 2}, (_ROWS_IN_THREES, _TRANSPOSED)),
        neighbour=Trace("scale", {"n": 3, "m": 2}, (_ROWS_IN_THREES, _TRANSPOSED)),
    ),
    ScheduleDefect(
        "blockize-drops-an-initialisation",
        "blockize of several blocks drops the initialisation of a reduction among them",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("softmax", _NM, (_step("blockize", "P", "S"),)),
        neighbour=_BLOCKIZED,
    ),
    ScheduleDefect(
        "cache-index-misplaces-the-next-stage",
        "after cache_index, cache_write puts its copy before the block that computes what is copied",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("concat", _NM, (_step("cache_index", "P", word="global"), _WRITE_LATER)),
        neighbour=Trace("concat", _NM, (_WRITE_LATER,)),
    ),
    ScheduleDefect(
        "loop-partition-hides-what-it-accesses",
        "the block that loop_partition makes says that it reads and writes nothing, so a later cache_read copies a"
        " buffer before it is written",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("two_steps", _NM, (_PARTITION, _step("cache_read", "Y", by=(0,), word="global"))),
        neighbour=Trace("two_steps", _NM, (_PARTITION,)),
    ),
    ScheduleDefect(
        "vectorize-of-let-variables",
        "vectorize of a loop around let variables, as those of an argmax, gives other results",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("argmax", {"n": 3, "m": 2}, (_step("vectorize", at=(("Y", 0),)),)),
        neighbour=Trace("row_max", {"n": 3, "m": 2}, (_step("vectorize", at=(("Y", 0),)),)),
    ),
    ScheduleDefect(
        "reorder-before-the-initialisation",
        "reorder of what a fused loop over rows and sums was split into adds up a part before the sum is initialised",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("row_sum", {"n": 2, "m": 3}, (*_SPLIT_AGAIN, _step("reorder", at=(("Y", 1), ("Y", 0))))),
        neighbour=Trace("row_sum", {"n": 2, "m": 3}, _SPLIT_AGAIN),
    ),
    ScheduleDefect(
        "decompose-reduction-of-a-repeated-block",
        "decompose_reduction initialises once what compute_at lets compute several times, so it is added up again",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("two_matmuls", _NMK, (_REPEATED, _step("decompose_reduction", "M", at=(("M", 0),)))),
        neighbour=Trace("two_matmuls", _NMK, (_REPEATED, _step("decompose_reduction", "M", at=(("M", 3),)))),
    ),
    ScheduleDefect(
        "reindex-behind-the-consumer",
        "reindex of what a block writes puts the copy behind the consumer that shares a loop with it",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace(
            "two_steps", _NM, (_moved("compute_at", "P", "Y", 1), _step("reindex", "P", by=(0,), word="write"))
        ),
        neighbour=Trace("two_steps", _NM, (_step("reindex", "P", by=(0,), word="write"),)),
    ),
    ScheduleDefect(
        "pad-einsum-of-a-maximum",
        "pad_einsum pads what a maximum goes over with zeros, which are greater than negative numbers",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("row_max", {"n": 17, "m": 3}, (_step("pad_einsum", "Y", by=(1, 2)),)),
        neighbour=Trace("row_sum", {"n": 17, "m": 3}, (_step("pad_einsum", "Y", by=(1, 2)),)),
    ),
    ScheduleDefect(
        "pad-einsum-inside-a-block",
        "pad_einsum of a block inside a blockized one forgets the loop around it, and copies rows not yet computed",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("scale", _NM, (_step("blockize", at=(("Y", 1),)), _step("pad_einsum", "Y", by=(3,)))),
        neighbour=Trace("scale", _NM, (_step("pad_einsum", "Y", by=(1, 3)),)),
    ),
    ScheduleDefect(
        "loop-partition-counts-a-part-from-0",
        "loop_partition of a part that does not begin at 0 counts its iterations from 0, and leaves some out",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("scale", _PARTS, (
            _step("loop_partition", at=(("Y", 0),), by=(2, None)),
            _step("loop_partition", at=(("Y_i1", 0),), by=(2, None)),
        )),
        neighbour=Trace("scale", _PARTS, (
            _step("loop_partition", at=(("Y", 0),), by=(3, None)),
            _step("loop_partition", at=(("Y_i0", 0),), by=(1, None)),
        )),
    ),
    ScheduleDefect(
        "buffer-loses-what-the-iteration-before-wrote",
        "reverse_compute_at under a fused loop copies what an earlier iteration computed, and the buffer is then made"
        " anew in every iteration",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("two_steps", {"n": 2, "m": 2}, (*_FUSED_AND_SPLIT, _moved("reverse_compute_at", "Y", "P", 0))),
        neighbour=Trace(
            "two_steps", {"n": 2, "m": 3}, (*_FUSED_AND_SPLIT, _moved("reverse_compute_at", "Y", "P", 0))
        ),
    ),
    ScheduleDefect(
        "rfactor-of-an-empty-part",
        "rfactor initialises a part under its predicate, and adds up a part without elements that never was",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("row_sum", {"n": 2, "m": 2}, _HALVES),
        neighbour=Trace("row_sum", {"n": 2, "m": 4}, _HALVES),
    ),
    ScheduleDefect(
        "blockize-drops-a-block-between",
        "blockize of two blocks takes away a third one that shares a loop with one of them",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace(
            "matmul_bias", _NMK,
            (_step("decompose_reduction", "M", at=(("M", 2),)), _step("blockize", "M_init", "Y")),
        ),
        neighbour=Trace(
            "conv2d", {"n": 2, "m": 2, "k": 2},
            (_step("decompose_reduction", "Y", at=(("Y", 0),)), _step("blockize", "P", "Y_init")),
        ),
    ),
    ScheduleDefect(
        "reindex-cache-write-of-a-scan",
        "reindex_cache_write of a scan reads in the copy what is being written, in the place of the element before it",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace("prefix_sum", _NM, (_IN_ORDER,)),
        neighbour=Trace("scale", _NM, (_IN_ORDER,)),
    ),
    ScheduleDefect(
        "reverse-compute-at-of-a-tensorized-block",
        "reverse_compute_at of a tensorized copy does not know what it reads, and puts it before the block that writes"
        " that",
        Kind.WRONG_VALUE, stage=Stage.RUN,
        witness=Trace(
            "scale", _NM, (*_TENSORIZED, _step("reverse_compute_at", "Y_global_o", at=(("Y", 1),), by=(0, -2)))
        ),
        neighbour=Trace("scale", _NM, (*_TENSORIZED, _moved("reverse_compute_at", "Y_global_o", "Y", 0))),
    ),
    ScheduleDefect(
        "cache-inplace-leaves-variables-undefined",
        "cache_inplace uses the variables of a block outside it, and the result cannot be built",
        Kind.ERROR, stage=Stage.COMPILE, message="are used, but are not passed in",
        witness=Trace("in_place", _NM, (_step("cache_inplace", "Y", by=(0,), word="global"),)),
        neighbour=Trace("in_place", _NM, (_step("unroll", at=(("Y", 1),)),)),
    ),
    ScheduleDefect(
        "loop-partition-repeats-let-variables",
        "loop_partition of a block with let variables uses the same ones in both parts, and the result cannot be built",
        Kind.ERROR, stage=Stage.COMPILE, message="Trying to update var",
        witness=Trace("argmax", _NM, (_step("loop_partition", at=(("Y", 0),), by=(1, None)),)),
        neighbour=Trace("row_sum", _NM, (_step("loop_partition", at=(("Y", 0),), by=(1, None)),)),
    ),
    ScheduleDefect(
        "transform-layout-keeps-an-alignment",
        "transform_layout to fewer axes keeps what storage_align said of an axis that is gone: it cannot be built",
        Kind.ERROR, stage=Stage.COMPILE, message="_M_range_check",
        witness=Trace("two_steps", {"n": 2, "m": 4}, (_step("storage_align", "P", by=(0, 1, 1, 0)), _flat("P"))),
        neighbour=Trace("two_steps", {"n": 2, "m": 4}, (_flat("P"),)),
    ),
    ScheduleDefect(
        "merge-of-a-loop-with-itself",
        "merge of a loop with itself dereferences nothing",
        Kind.CRASH,
        witness=Trace("scale", _NM, (_step("merge", at=(("Y", 0), ("Y", 0))),)),
        neighbour=Trace("matmul_bias", _NMK, (_step("merge", at=(("M", 0), ("Y", 0))),)),
    ),
    ScheduleDefect(
        "fuse-reduction-epilogue-of-another-layout",
        "fuse_reduction_epilogue of a reduction whose layout was transformed fails a check instead of a ScheduleError",
        Kind.ERROR, message="cannot be indexed with",
        witness=Trace("matmul_bias", _NMK, (_flat("M"), _EPILOGUE)),
        neighbour=Trace("matmul_bias", _NMK, (_EPILOGUE,)),
    ),
    ScheduleDefect(
        "decompose-padding-in-a-shared-loop",
        "decompose_padding of a block that shares a loop with another fails a check instead of a ScheduleError",
        Kind.ERROR, message="in_bound_filling_pos",
        witness=Trace(
            "two_steps", _NM, (_moved("compute_at", "P", "Y", 1), _step("decompose_padding", "P", at=(("P", 0),)))
        ),
        neighbour=Trace("two_steps", _NM, (_moved("compute_at", "P", "Y", 1),)),
    ),
    ScheduleDefect(
        "rfactor-beside-a-partition",
        "rfactor fails a check where another loop of the function was partitioned",
        Kind.ERROR, message="old_block_realize_",
        witness=Trace(
            "softmax", _NM,
            (_step("loop_partition", at=(("M", 0),), by=(None, 1)), _step("rfactor", at=(("S", 1),), by=(0,))),
        ),
        neighbour=Trace("softmax", _NM, (_step("rfactor", at=(("S", 1),), by=(0,)),)),
    ),
    ScheduleDefect(
        "loop-partition-of-a-blockized-block",
        "loop_partition of a loop whose block was blockized looks up a variable that it does not know",
        Kind.ERROR, message="key is not in Map",
        witness=Trace(
            "scale", _NM, (_step("blockize", at=(("Y", 1),)), _step("loop_partition", at=(("Y", 0),), by=(1, None)))
        ),
        neighbour=_BLOCKIZED_LOOP,
    ),
    ScheduleDefect(
        "loop-partition-of-a-merged-loop",
        "loop_partition of a loop with several statements in it dereferences nothing",
        Kind.CRASH,
        witness=Trace(
            "matmul_bias", _NMK,
            (_step("merge", at=(("M", 0), ("Y", 0))), _step("loop_partition", at=(("M", 0),), by=(1, None))),
        ),
        neighbour=Trace("matmul_bias", _NMK, (_step("merge", at=(("M", 0), ("Y", 0))),)),
    ),
    ScheduleDefect(
        "merge-of-one-nest",
        "merge of two loops of one nest, or of a loop with itself, dereferences nothing",
        Kind.CRASH,
        witness=Trace(
            "matmul_bias", _NMK, (_moved("compute_at", "M", "Y", 0), _step("merge", at=(("M", 0), ("Y", 0))))
        ),
        neighbour=Trace("matmul_bias", _NMK, (_moved("compute_at", "M", "Y", 0),)),
    ),
    ScheduleDefect(
        "reindex-cache-read-of-a-scan",
        "reindex_cache_read of a scan, which reads what it writes, ends the process",
        Kind.CRASH,
        witness=Trace("prefix_sum", _NM, (_step("reindex_cache_read", "Y", by=(1, 1, 0), word="permute"),)),
        neighbour=Trace("scale", _NM, (_step("reindex_cache_read", "Y", by=(0, 1, 0), word="permute"),)),
    ),
    ScheduleDefect(
        "cache-index-of-no-computation",
        "cache_index of a block without index computation makes an empty sequence; its documentation says 'keep"
        " unchanged'",
        Kind.ERROR, message="An empty SeqStmt",
        witness=Trace("scale", _NM, (_CACHE_INDEX,)),
        neighbour=Trace("conv2d", _NMK, (_CACHE_INDEX,)),
    ),
    ScheduleDefect(
        "cache-index-of-one-computation",
        "cache_index of a block with one index computation makes a sequence of one",
        Kind.ERROR, message="SeqStmt of length",
        witness=Trace("shifted", _NM, (_CACHE_INDEX,)),
        neighbour=Trace("conv2d", _NMK, (_CACHE_INDEX,)),
    ),
    ScheduleDefect(
        "blockize-of-a-reduction-by-its-block",
        "blockize of a reduction by its block is refused by an internal error instead of a ScheduleError",
        Kind.ERROR, message="No reduction iter vars allowed",
        witness=Trace("row_sum", _NM, (_step("blockize", "Y"),)),
        neighbour=_BLOCKIZED_LOOP,
    ),
    ScheduleDefect(
        "blockize-of-one-block",
        "blockize of a list of one block makes a sequence of one",
        Kind.ERROR, message="SeqStmt of length",
        witness=Trace("scale", _NM, (_step("blockize", "Y"),)),
        neighbour=_BLOCKIZED_LOOP,
    ),
    ScheduleDefect(
        "blockize-of-blocks-with-another-between",
        "blockize of two blocks with a third one between them is refused by an internal error, not by a ScheduleError",
        Kind.ERROR, message="Target blocks must be consecutive",
        witness=Trace("matmul_relu", _NMK, (_step("blockize", "P", "Y"),)),
        neighbour=_BLOCKIZED,
    ),
    ScheduleDefect(
        "blockize-of-blocks-of-different-depth",
        "blockize of several blocks of different depth reads a list beyond its end",
        Kind.ERROR, message="Index # out of bounds",
        witness=Trace(
            "max_pool", _NM,
            (_step("decompose_reduction", "Y", at=(("Y", 0),)), _step("blockize", "Y_init", "Y_update")),
        ),
        neighbour=_BLOCKIZED,
    ),
    ScheduleDefect(
        "reverse-compute-at-of-a-window",
        "reverse_compute_at of a block that reads its producer at `i + r`, or through an index, is refused by a"
        " ValueError instead of a ScheduleError",
        Kind.ERROR, message="TensorRegion pattern match failed",
        witness=Trace("max_pool", _NM, (_moved("reverse_compute_at", "Y", "P", 0),)),
        neighbour=_REVERSED,
    ),
    ScheduleDefect(
        "reindex-in-a-shared-loop",
        "reindex of a block that shares a loop with another fails a check instead of a ScheduleError",
        Kind.ERROR, message=r"outer->body\.get\(\) == inner",
        witness=Trace(
            "two_steps", _NM, (_moved("compute_at", "P", "Y", 0), _step("reindex", "Y", by=(0,), word="read"))
        ),
        neighbour=Trace("two_steps", _NM, (_step("reindex", "Y", by=(0,), word="read"),)),
    ),
)  # fmt: skip
