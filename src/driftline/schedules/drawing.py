"""Draws random steps for a schedule in its present state: its blocks, the loops above them, and their accesses."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from driftline.schedules.functions import EVEN, UNEVEN, TensorFunction
from driftline.schedules.primitives import PRIMITIVES
from driftline.schedules.trace import LoopAt, ScheduleStep

MOST_STEPS = 7
LAST = "software_pipeline"  # says something of every statement of a loop: a step after it might add one
MOST_UNROLLED = 64  # iterations: more make the compiler slow, not wrong
_FACTORS = (2, 3, 4, 5, 8)
_REDUCES = 2  # IterVar.CommReduce
_PARALLEL, _VECTORIZED = 1, 2  # ForKind
_MOST_STAGES = 3
_SCOPES = ("global", "global", "global", "local")


def draw_sizes(function: TensorFunction, rng: random.Random) -> dict[str, int]:
    """Draw sizes for a function: all even, all uneven, or mixed."""
    pool = [size for size in rng.choice((EVEN, UNEVEN, UNEVEN + EVEN)) if size <= function.most]
    return {name: rng.choice(pool) for name in function.sizes}


class ScheduleView:
    """A view of the schedule's present state, from which steps are drawn."""

    def __init__(self, schedule: Any, parameters: frozenset[str]) -> None:
        self._schedule = schedule
        self._parameters = parameters
        names: dict[str, int] = {}
        for name in _names(schedule, schedule.get_sblock("root")):
            names[name] = names.get(name, 0) + 1
        self.blocks = [name for name, count in names.items() if count == 1]  # others cannot be named
        self._loops: dict[str, list[Any]] = {}

    def node(self, block: str) -> Any:
        return self._schedule.get(self._schedule.get_sblock(block))

    def extents(self, block: str) -> list[int]:
        """Return the extents of the loops above a block, the outermost first; 0 for an extent that is not a number."""
        return [getattr(one.extent, "value", 0) for one in self._loops_above(block)]

    def statements(self, block: str) -> list[list[int]]:
        """Return, for each loop above a block, how many statements TVM counts in each part of the loop's body."""
        return [[_members(part) for part in _sequence(one.body)] for one in self._loops_above(block)]

    def keeps_blocks_together(self, step: ScheduleStep) -> bool:
        """True if the step puts all members of each block into one pipeline stage."""
        (at,) = step.loops
        stages = list(step.numbers[: len(step.numbers) // 2])
        for count in self.statements(at.block)[at.index]:
            if len(set(stages[:count])) > 1:
                return False
            del stages[:count]
        return True

    def in_turn(self, at: LoopAt) -> bool:
        """True if the iterations of a loop run one after another, neither parallel nor vectorized."""
        return int(self._loops_above(at.block)[at.index].kind) not in (_PARALLEL, _VECTORIZED)

    def _loops_above(self, block: str) -> list[Any]:
        if block not in self._loops:
            self._loops[block] = [self._schedule.get(one) for one in self._schedule.get_loops(block)]
        return self._loops[block]

    def iterations(self, block: str) -> list[int]:
        return [int(getattr(var.dom.extent, "value", 0)) for var in self.node(block).iter_vars]

    def adds_up(self, block: str) -> bool:
        """True if a block is a reduction whose initialisation is a block of its own."""
        node = self.node(block)
        return node.init is None and any(int(var.iter_type) == _REDUCES for var in node.iter_vars)

    def is_reduction(self, block: str) -> bool:
        return self.node(block).init is not None

    def reads(self, block: str) -> int:
        return len(self.node(block).reads)

    def writes(self, block: str) -> int:
        return len(self.node(block).writes)

    def written_shape(self, block: str, index: int) -> list[int]:
        return [int(getattr(size, "value", 0)) for size in self.node(block).writes[index].source.shape]

    def writes_parameter(self, block: str, index: int = 0) -> bool:
        return str(self.node(block).writes[index].source.name) in self._parameters

    def accessing(self, block: str, side: str, index: int) -> tuple[list[str], list[str]]:
        """Return the blocks that read the buffer at `index` of a block's `side` (reads or writes), and those that write
        it."""
        regions = self.node(block).reads if side == "read" else self.node(block).writes
        buffer = regions[index].source
        readers, writers = [], []
        for name in self.blocks:
            node = self.node(name)
            if any(region.source.same_as(buffer) for region in node.reads):
                readers.append(name)
            if any(region.source.same_as(buffer) for region in node.writes):
                writers.append(name)
        return readers, writers

    def holds(self, step: ScheduleStep) -> bool:
        """True if the blocks and loops that a step names exist."""
        if any(name not in self.blocks for name in (*step.blocks, *(at.block for at in step.loops))):
            return False
        if not all(at.index < len(self.extents(at.block)) for at in step.loops):
            return False
        if step.primitive == LAST:  # a stage and a place in the order for each statement
            return len(step.numbers) == 2 * sum(self.statements(step.loops[0].block)[step.loops[0].index])
        return True


def _sequence(statement: Any) -> Sequence[Any]:
    return getattr(statement, "seq", (statement,))


def _members(statement: Any) -> int:
    """Return how many statements TVM counts: the members of a block that holds a sequence (such as initialisation and
    update), else 1."""
    block = getattr(statement, "block", None)
    if block is None or not int(getattr(statement.predicate, "value", 0)):
        return 1
    return len(_sequence(block.body)) + (block.init is not None)  # an initialisation stands under one condition


def _names(schedule: Any, block: Any) -> list[str]:
    found = []
    for child in schedule.get_child_blocks(block):
        found += [str(schedule.get(child).name_hint), *_names(schedule, child)]
    return found


def draw_step(view: ScheduleView, function: TensorFunction, rng: random.Random) -> ScheduleStep | None:
    """Draw a step that may be legal; None if the drawn primitive cannot be applied here."""
    name = rng.choices(list(PRIMITIVES), [one.weight for one in PRIMITIVES.values()])[0]
    if not view.blocks or (name == "fuse_reduction_epilogue" and not function.bias_only):
        return None
    block = rng.choice(view.blocks)
    drawer = _DRAWERS.get(name, _drawn_loop)
    return drawer(name, block, view, rng)


Drawer = Callable[[str, str, ScheduleView, random.Random], ScheduleStep | None]


def _drawn_loop(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    extents = view.extents(block)
    if not extents:
        return None
    index = rng.randrange(len(extents))
    if name == "vectorize" and rng.random() < 0.6:
        index = len(extents) - 1
    if name == "unroll" and extents[index] > MOST_UNROLLED:
        return None
    return ScheduleStep(name, loops=(LoopAt(block, index),))


def _split(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    step = _drawn_loop(name, block, view, rng)
    if step is None:
        return None
    factors: list[int | None] = [rng.choice(_FACTORS) for _ in range(rng.choice((1, 1, 1, 2)))]
    factors.insert(rng.randrange(len(factors) + 1), None)
    return ScheduleStep(name, loops=step.loops, numbers=tuple(factors))


def _partition(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    step = _drawn_loop(name, block, view, rng)
    if step is None or view.extents(block)[step.loops[0].index] < 3:
        return None
    first = rng.randrange(1, view.extents(block)[step.loops[0].index])
    return ScheduleStep(name, loops=step.loops, numbers=rng.choice(((first, None), (None, first))))


def _fuse(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    count = len(view.extents(block))
    if count < 2:
        return None
    first = rng.randrange(count - 1)
    last = rng.randrange(first + 2, count + 1)
    return ScheduleStep(name, loops=tuple(LoopAt(block, index) for index in range(first, last)))


def _reorder(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    count = len(view.extents(block))
    if count < 2:
        return None
    chosen = rng.sample(range(count), rng.randrange(2, count + 1))
    return ScheduleStep(name, loops=tuple(LoopAt(block, index) for index in chosen))


def _merge(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    other, depth = rng.choice(view.blocks), min(len(view.extents(block)), 3)
    if other == block or not depth:
        return None
    index = rng.randrange(depth)
    if len(view.extents(other)) <= index:
        return None
    return ScheduleStep(name, loops=(LoopAt(block, index), LoopAt(other, index)))


def _loop_or_block(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    if rng.random() < 0.7:
        return _drawn_loop(name, block, view, rng)
    if name == "blockize" and len(view.blocks) > 1:
        return ScheduleStep(name, blocks=tuple(rng.sample(view.blocks, 2)))
    return ScheduleStep(name, blocks=(block,))


def _move(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    other = rng.choice(view.blocks)
    count = len(view.extents(other))
    if other == block or not count:
        return None
    at = LoopAt(other, rng.randrange(count))
    return ScheduleStep(name, (block,), (at,), (int(rng.random() < 0.3), rng.choice((-1, -1, -2))))


def _only_block(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    return ScheduleStep(name, (block,))


def _epilogue(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    other = rng.choice(view.blocks)
    return ScheduleStep(name, (block, other)) if other != block else None


def _cache(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    count = view.writes(block) if name == "cache_write" else view.reads(block)
    return ScheduleStep(name, (block,), numbers=(rng.randrange(count),), word=rng.choice(_SCOPES)) if count else None


def _cache_index(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    return ScheduleStep(name, (block,), word="global")


def _reindex(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    side = rng.choice(("read", "write"))
    count = view.writes(block) if side == "write" else view.reads(block)
    return ScheduleStep(name, (block,), numbers=(rng.randrange(count),), word=side) if count else None


def _reindex_cache(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    count = view.writes(block) if name.endswith("write") else view.reads(block)
    rank = len(view.iterations(block))
    if not count or not rank:
        return None
    order = rng.sample(range(rank), rank)
    return ScheduleStep(name, (block,), numbers=(rng.randrange(count), *order), word="permute")


def _rfactor(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    reductions = [one for one in view.blocks if view.is_reduction(one)]
    step = _drawn_loop(name, rng.choice(reductions), view, rng) if reductions else None
    return step and ScheduleStep(name, loops=step.loops, numbers=(rng.choice((0, 0, 1, 2)),))


def _decompose(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    reductions = [one for one in view.blocks if view.is_reduction(one)]
    if name == "decompose_reduction" and reductions:
        block = rng.choice(reductions)
    count = len(view.extents(block))
    return ScheduleStep(name, (block,), (LoopAt(block, rng.randrange(count)),)) if count else None


def _pad_einsum(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    rank = len(view.iterations(block))
    return ScheduleStep(name, (block,), numbers=tuple(rng.choice((1, 2, 4, 8)) for _ in range(rank))) if rank else None


def _rolling(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    return ScheduleStep(name, (block,), numbers=(0,))


def _iter_vars(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    rank = len(view.iterations(block))
    return ScheduleStep(name, (block,), numbers=tuple(rng.sample(range(rank), rank))) if rank > 1 else None


def _mapped(shape: list[int], rng: random.Random, *, dividing: bool) -> tuple[str, tuple[int, ...]] | None:
    rank = len(shape)
    if not rank or not all(shape):
        return None
    word = rng.choice(("permute", "split", "fuse"))
    if word == "fuse" and rank > 1:
        axis = rng.randrange(rank - 1)
        return word, (rank, axis, shape[axis + 1])
    if word == "split":
        axis = rng.randrange(rank)
        factors = [one for one in _FACTORS if not dividing or shape[axis] % one == 0]
        return (word, (rank, axis, rng.choice(factors))) if factors else None
    return "permute", tuple(rng.sample(range(rank), rank))


def _layout(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    if not view.writes(block):
        return None
    made = _mapped(view.written_shape(block, 0), rng, dividing=False)
    return ScheduleStep(name, (block,), numbers=(0, *made[1]), word=made[0]) if made else None


def _block_layout(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    made = _mapped(view.iterations(block), rng, dividing=True)
    return ScheduleStep(name, (block,), numbers=made[1], word=made[0]) if made else None


def _align(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    if not view.writes(block) or view.writes_parameter(block):
        return None
    axis = rng.randrange(len(view.written_shape(block, 0)) or 1)
    return ScheduleStep(name, (block,), numbers=(0, axis, rng.choice((2, 4, 8, 16)), rng.choice((0, 0, 1))))


def _scope(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    if not view.writes(block) or view.writes_parameter(block):
        return None
    return ScheduleStep(name, (block,), numbers=(0,), word=rng.choice(("global", "local")))


def _tensorize(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    """Draw a `tensorize` of a block's innermost loop that seems to match an intrinsic, or return None."""
    fitting = [(one, words) for one in view.blocks if view.extents(one) and (words := _intrinsics_for(view, one))]
    if not fitting:
        return None
    block, words = rng.choice(fitting)
    extents = view.extents(block)
    at = LoopAt(block, len(extents) - 1)
    return ScheduleStep(name, loops=(at,), numbers=(extents[-1],), word=rng.choice(words))


def _intrinsics_for(view: ScheduleView, block: str) -> tuple[str, ...]:
    if view.adds_up(block):
        return ("dot", "dot_column", "dot_int8")
    if view.is_reduction(block):
        return ()
    return {0: ("fill",), 1: ("copy",)}.get(view.reads(block), ())


def _pipeline(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    """Draw a software pipeline for a loop with several statements, or return None. Stages never decrease in statement
    order and a stage keeps that order, so that nothing is read before it is written."""
    places = [(LoopAt(b, at), n) for b in view.blocks for at, n in enumerate(view.statements(b)) if len(n) > 1]
    if not places:
        return None
    at, counts = rng.choice(places)
    drawn = sorted(rng.choices(range(rng.randint(2, _MOST_STAGES)), k=len(counts)))
    stages = [stage - drawn[0] for stage, members in zip(drawn, counts, strict=True) for _ in range(members)]
    count = len(stages)
    order = rng.sample(range(count), count)
    for stage in set(stages):
        members = [i for i in range(count) if stages[i] == stage]
        for member, position in zip(members, sorted(order[i] for i in members), strict=True):
            order[member] = position
    return ScheduleStep(name, loops=(at,), numbers=(*stages, *order))


def _double_buffer(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    if not view.writes(block) or view.writes_parameter(block):
        return None
    return ScheduleStep(name, (block,), numbers=(0,))


def _auto_unroll(name: str, block: str, view: ScheduleView, rng: random.Random) -> ScheduleStep | None:
    step = _drawn_loop(name, block, view, rng)
    return step and ScheduleStep(name, loops=step.loops, numbers=(rng.choice((4, 16)), rng.choice((0, 1))))


_DRAWERS: Mapping[str, Drawer] = {
    "split": _split,
    "loop_partition": _partition,
    "fuse": _fuse,
    "reorder": _reorder,
    "merge": _merge,
    "add_unit_loop": _loop_or_block,
    "blockize": _loop_or_block,
    "compute_at": _move,
    "reverse_compute_at": _move,
    "compute_inline": _only_block,
    "reverse_compute_inline": _only_block,
    "fuse_reduction_epilogue": _epilogue,
    "cache_read": _cache,
    "cache_write": _cache,
    "cache_inplace": _cache,
    "cache_index": _cache_index,
    "reindex": _reindex,
    "reindex_cache_read": _reindex_cache,
    "reindex_cache_write": _reindex_cache,
    "rfactor": _rfactor,
    "decompose_reduction": _decompose,
    "decompose_padding": _decompose,
    "pad_einsum": _pad_einsum,
    "rolling_buffer": _rolling,
    "reorder_block_iter_var": _iter_vars,
    "transform_layout": _layout,
    "transform_block_layout": _block_layout,
    "storage_align": _align,
    "set_scope": _scope,
    "tensorize": _tensorize,
    "software_pipeline": _pipeline,
    "double_buffer": _double_buffer,
    "auto_unroll": _auto_unroll,
}
