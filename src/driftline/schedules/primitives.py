"""The schedule primitives: each step is written as one line of Python, which is also executed to apply it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from driftline.core.errors import StoreError
from driftline.core.quoting import string
from driftline.schedules.intrinsics import intrinsic_name
from driftline.schedules.trace import LoopAt, ScheduleStep


@dataclass(frozen=True)
class Primitive:
    """A method of TVM's schedule. `written` returns the text of its arguments."""

    name: str
    written: Callable[[ScheduleStep], str]
    weight: int = 2  # how often it is drawn

    def line(self, step: ScheduleStep) -> str:
        return f"s.{self.name}({self.written(step)})"


@dataclass(frozen=True)
class Annotation(Primitive):
    """A name of Driftline's for `annotate` with keys that TVM's passes interpret. `written` returns the calls."""

    def line(self, step: ScheduleStep) -> str:
        return self.written(step)


def line_of(step: ScheduleStep) -> str:
    """Return the step as a line of Python, for a schedule called `s`."""
    if step.primitive not in PRIMITIVES:
        raise StoreError(f"A trace has the step {step.primitive!r}, which this release of Driftline does not know.")
    return PRIMITIVES[step.primitive].line(step)


def loop(at: LoopAt) -> str:
    return f"s.get_loops({string(at.block)})[{at.index}]"


def _list(numbers: tuple[int | None, ...]) -> str:
    return f"[{', '.join(map(str, numbers))}]"


def index_map(word: str, numbers: tuple[int | None, ...]) -> str:
    """Return a one-to-one map of indices as a lambda: `permute` by an order; `split` (rank, axis, factor); `fuse`
    (rank, axis, extent)."""
    if word == "permute":
        names = [f"i{at}" for at in range(len(numbers))]
        told = [f"i{at}" for at in numbers]
    else:
        rank, axis, amount = (int(number or 0) for number in numbers)
        names = [f"i{at}" for at in range(rank)]
        told = list(names)
        if word == "split":
            told[axis : axis + 1] = [f"i{axis} // {amount}", f"i{axis} % {amount}"]
        else:
            told[axis : axis + 2] = [f"i{axis} * {amount} + i{axis + 1}"]
    return f"lambda {', '.join(names)}: ({', '.join(told)}{',' if len(told) == 1 else ''})"


def _loops(step: ScheduleStep) -> str:
    return ", ".join(loop(at) for at in step.loops)


def _block(step: ScheduleStep) -> str:
    return string(step.blocks[0])


def _block_and_loop(step: ScheduleStep) -> str:
    return f"{_block(step)}, {loop(step.loops[0])}"


def _moved(step: ScheduleStep) -> str:
    preserve, index = step.numbers
    more = (", preserve_unit_loops=True" if preserve else "") + (f", index={index}" if index != -1 else "")
    return _block_and_loop(step) + more


def _cached(step: ScheduleStep) -> str:
    return f"{_block(step)}, {step.numbers[0]}, {string(step.word)}"


def _side(step: ScheduleStep) -> str:
    return f"({string(step.word)}, {step.numbers[0]})"


def _written_map(step: ScheduleStep, skipped: int = 0) -> str:
    return index_map(step.word, step.numbers[skipped:])


def _annotated(place: str, **values: object) -> str:
    """Return the calls that set these annotations, as one expression."""
    return ", ".join(f"s.annotate({place}, {string(key)}, {value})" for key, value in values.items())


def _pipelined(step: ScheduleStep) -> str:
    """Return the annotations of a pipeline. The first half of the step's numbers are the statements' stages, the second
    half their order."""
    half = len(step.numbers) // 2
    stages, order = _list(step.numbers[:half]), _list(step.numbers[half:])
    return _annotated(loop(step.loops[0]), software_pipeline_stage=stages, software_pipeline_order=order)


def _unrolled_by_pragma(step: ScheduleStep) -> str:
    most, explicit = step.numbers
    return _annotated(loop(step.loops[0]), pragma_auto_unroll_max_step=most, pragma_unroll_explicit=explicit)


def _double_buffered(step: ScheduleStep) -> str:
    return _annotated(f"s.get_sblock({_block(step)})", double_buffer_scope=step.numbers[0])


PRIMITIVES: dict[str, Primitive] = {
    one.name: one
    for one in (
        Primitive("split", lambda s: f"{_loops(s)}, {_list(s.numbers)}", 8),
        Primitive("fuse", _loops, 4),
        Primitive("reorder", _loops, 4),
        Primitive("vectorize", _loops, 4),
        Primitive("parallel", _loops, 3),
        Primitive("unroll", _loops, 3),
        Primitive("loop_partition", lambda s: f"{_loops(s)}, {_list(s.numbers)}"),
        Primitive("merge", _loops),
        Primitive("add_unit_loop", lambda s: _loops(s) or f"s.get_sblock({_block(s)})", 1),
        Primitive("compute_at", _moved, 6),
        Primitive("reverse_compute_at", _moved, 6),
        Primitive("compute_inline", _block),
        Primitive("reverse_compute_inline", _block),
        Primitive("fuse_reduction_epilogue", lambda s: f"{string(s.blocks[0])}, {string(s.blocks[1])}", 1),
        Primitive("cache_read", _cached, 4),
        Primitive("cache_write", _cached, 4),
        Primitive("cache_inplace", _cached, 1),
        Primitive("cache_index", lambda s: f"{_block(s)}, {string(s.word)}", 1),
        Primitive("reindex", lambda s: f"{_block(s)}, {_side(s)}"),
        Primitive("reindex_cache_read", lambda s: f'{_block(s)}, {s.numbers[0]}, "global", {_written_map(s, 1)}'),
        Primitive("reindex_cache_write", lambda s: f'{_block(s)}, {s.numbers[0]}, "global", {_written_map(s, 1)}'),
        Primitive("rfactor", lambda s: f"{_loops(s)}, {s.numbers[0]}", 4),
        Primitive("decompose_reduction", _block_and_loop, 4),
        Primitive("decompose_padding", _block_and_loop),
        Primitive("pad_einsum", lambda s: f"{_block(s)}, {_list(s.numbers)}"),
        Primitive("rolling_buffer", lambda s: f"{_block(s)}, {s.numbers[0]}", 1),
        Primitive("blockize", lambda s: _loops(s) or f"[{', '.join(f's.get_sblock({string(b)})' for b in s.blocks)}]"),
        Primitive("reorder_block_iter_var", lambda s: f"s.get_sblock({_block(s)}), {_list(s.numbers)}", 1),
        Primitive("transform_layout", lambda s: f'{_block(s)}, ("write", {s.numbers[0]}), {_written_map(s, 1)}', 3),
        Primitive("transform_block_layout", lambda s: f"{_block(s)}, {_written_map(s)}"),
        Primitive("storage_align", lambda s: f"{_block(s)}, {', '.join(map(str, s.numbers))}"),
        Primitive("set_scope", _cached),
        Primitive("tensorize", lambda s: f"{_loops(s)}, {string(intrinsic_name(s))}", 4),
        Annotation("software_pipeline", _pipelined, 3),
        Annotation("double_buffer", _double_buffered, 1),
        Annotation("auto_unroll", _unrolled_by_pragma, 1),
        Annotation("partition_hint", lambda s: _annotated(loop(s.loops[0]), pragma_loop_partition_hint=1), 1),
    )
}


# Methods that change a schedule and are not drawn, and why.
NOT_DRAWN = {
    "bind": "binds loops to the threads of a GPU",
    "annotate": "every key has its own duties; drawn: software_pipeline, double_buffer, auto_unroll, partition_hint",
    "unannotate": "takes back what annotate did",
    "annotate_buffer_access": "states what a block accesses, and believes it",
    "unsafe_set_dtype": "unsafe by its name: changes the numbers",
    "unsafe_hide_buffer_access": "unsafe by its name: hides dependencies",
    "read_at": "has no documentation to hold it to",
    "write_at": "has no documentation to hold it to",
}
