"""Traces, guard bytes, the journal and the reducer: everything that needs no compiler."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from driftline.backends.tvm_target import read_target
from driftline.core.errors import DriftlineError, StoreError
from driftline.core.evidence import Evidence
from driftline.core.wire import encode
from driftline.schedules.asking import read_journal
from driftline.schedules.extracting import exact, iterations
from driftline.schedules.functions import FUNCTIONS
from driftline.schedules.guarded import GuardedArray, made_inputs
from driftline.schedules.naming import FailureLike, fingerprint
from driftline.schedules.primitives import index_map, line_of
from driftline.schedules.reducing import TraceReduction
from driftline.schedules.requests import JournalLine, Performed
from driftline.schedules.script import script_of
from driftline.schedules.trace import LoopAt, ScheduleStep, Trace, read_trace

SPLIT = ScheduleStep("split", loops=(LoopAt("Y", 0),), numbers=(None, 8))
VECTORIZE = ScheduleStep("vectorize", loops=(LoopAt("Y", 1),))
UNROLL = ScheduleStep("unroll", loops=(LoopAt("Y", 0),))
INLINE = ScheduleStep("compute_inline", blocks=("P",))
TRACE = Trace("two_steps", {"n": 17, "m": 5}, (UNROLL, SPLIT, INLINE, VECTORIZE))


def test_a_trace_is_its_json() -> None:
    assert read_trace(TRACE.dump()) == TRACE
    assert TRACE.digest != replace(TRACE, seed=1).digest


@pytest.mark.parametrize(
    "data", [b"[]", b"{", b"[" * 100_000, b'{"function": 3}', b'{"function": "scale", "steps": 1}']
)
def test_what_is_no_trace_is_refused(data: bytes) -> None:
    with pytest.raises(StoreError, match="not a trace"):
        read_trace(data)


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"number": 0, "trace": {"sizes": {"n": 1.5}}}', b"\xff\xfe", b"{"])
def test_a_damaged_line_of_a_journal_is_left_out(tmp_path: Path, line: bytes) -> None:
    whole = json.dumps(encode(JournalLine, JournalLine(3, done=Performed(TRACE)))).encode()
    (tmp_path / "journal").write_bytes(line + b"\n" + whole + b"\n")
    done, _ = read_journal(tmp_path / "journal")
    assert list(done) == [3]


def test_a_step_of_another_release_is_refused() -> None:
    with pytest.raises(StoreError, match="frobnicate"):
        line_of(ScheduleStep("frobnicate"))


def test_names_in_a_trace_are_never_code() -> None:
    line = line_of(ScheduleStep("compute_inline", blocks=('"); import os; ("',)))
    call = ast.parse(line, mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.args[0], ast.Constant)


def test_targets_are_written_as_people_do() -> None:
    assert read_target("llvm") == "llvm"
    assert json.loads(read_target("llvm -mcpu=generic -mattr=+neon,+dotprod -num-cores=4")) == {
        "kind": "llvm", "mcpu": "generic", "mattr": ["+neon", "+dotprod"], "num-cores": 4,
    }  # fmt: skip
    assert read_target('{"kind": "llvm"}') == '{"kind": "llvm"}'
    with pytest.raises(DriftlineError, match="is no option"):
        read_target("llvm mcpu")


def test_index_maps_are_one_to_one() -> None:
    for word, numbers in (("permute", (2, 0, 1)), ("split", (3, 1, 2)), ("fuse", (3, 1, 5))):
        mapped = eval(index_map(word, numbers))
        indices = list(np.ndindex(3, 4, 5))
        assert len({mapped(*index) for index in indices}) == len(indices)


def test_a_write_beside_an_array_is_seen() -> None:
    guarded = GuardedArray((3, 5), "float32")
    guarded.array[...] = 1
    assert guarded.array.ctypes.data % 64 == 0 and guarded.touched() == ""
    beside = np.lib.stride_tricks.as_strided(guarded.array, (16,), (4,))
    beside[15] = 0.0
    assert guarded.touched() == "4 bytes after it"


def test_a_number_computed_from_the_bytes_beside_one_array_shows_beside_another() -> None:
    read, written = (GuardedArray((4,), "float32", mark) for mark in (0, 1))
    outside = [np.lib.stride_tricks.as_strided(one.array, (5,), (4,)) for one in (read, written)]
    outside[1][4] = outside[0][4] * 2 + 1  # a NaN keeps its bits
    assert np.isnan(outside[1][4]) and written.touched()


def test_inputs_are_small_integers_the_same_each_time() -> None:
    shapes = {"A": ((4, 4), "float32"), "I": ((9,), "int32")}
    made, again = (made_inputs(shapes, 0, {"I": 4}, False) for _ in range(2))
    assert all(np.array_equal(made[name], again[name]) for name in made)
    assert np.abs(made["A"]).max() <= 4 and np.array_equal(made["A"], made["A"].round())
    assert made["I"].min() >= 0 and made["I"].max() < 4
    assert len(set(made_inputs(shapes, 0, {}, True)["A"].flat)) == 16


def test_the_journal_tells_what_a_dead_worker_was_doing(tmp_path: Path) -> None:
    lines = [
        JournalLine(3, trace=replace(TRACE, steps=())),
        JournalLine(3, done=Performed(TRACE)),
        JournalLine(4, trace=replace(TRACE, steps=())),
        JournalLine(4, step=SPLIT),
        JournalLine(4, stage="COMPILE"),
    ]
    path = tmp_path / "results"
    path.write_text("".join(json.dumps(encode(JournalLine, line)) + "\n" for line in lines) + '{"number": 4, "sta')
    done, broken = read_journal(path)
    assert list(done) == [3]
    assert broken == (4, replace(TRACE, steps=(SPLIT,)), "COMPILE")


def failing_with(*needed: ScheduleStep) -> tuple[TraceReduction, list[Trace]]:
    """A reduction of the trace above, where everything fails that has these steps and a size over 3."""
    asked: list[Trace] = []

    def performed(trace: Trace) -> Performed:
        wrong = {step.primitive for step in needed} <= set(trace.primitives) and trace.sizes["n"] > 3
        return Performed(trace, "RUN", "wrong-value" if wrong else "", Evidence(output="Y"))

    def perform(traces: Sequence[Trace], lenient: bool) -> list[Performed]:
        asked.extend(traces)
        return [performed(trace) for trace in traces]

    return TraceReduction(perform, performed(TRACE)), asked


def test_a_planted_failure_is_reduced_to_the_steps_that_matter() -> None:
    reduction, asked = failing_with(SPLIT, VECTORIZE)
    reduction.fewer_steps()
    reduction.simpler_function()
    reduction.all_else()
    best = reduction.best.trace
    assert best.primitives == ("split", "vectorize")
    assert (best.function, dict(best.sizes)) == ("scale", {"n": 4, "m": 2})
    assert best.steps[0].numbers == (None, 0)
    assert reduction.asked == len(asked)
    assert fingerprint(reduction.best).detail == "split > vectorize of elementwise"


def test_the_steps_of_a_known_failure_are_tried_first() -> None:
    reduction, asked = failing_with(SPLIT, VECTORIZE)
    reduction.known_steps([("split", "tensorize"), ("split", "vectorize")])
    assert reduction.best.trace.steps == (SPLIT, VECTORIZE) and len(asked) == 1
    repeated = replace(TRACE, steps=(SPLIT, UNROLL, replace(SPLIT, numbers=(None, 4))))
    other = TraceReduction(lambda traces, lenient: [Performed(trace) for trace in traces], Performed(repeated))
    other.known_steps([("split",)])
    assert other.asked == 2  # the first of the two splits, and the second


def test_a_step_of_tensorize_brings_its_intrinsic_into_the_script() -> None:
    step = ScheduleStep("tensorize", loops=(LoopAt("A_global", 1),), numbers=(5,), word="copy")
    text = script_of(TRACE.with_steps((step,)))
    ast.parse(text)
    assert text.index("def copy_5(") < text.index("TensorIntrin.register") < text.index('[1], "copy_5")')
    with pytest.raises(StoreError, match="wmma"):
        line_of(replace(step, word="wmma"))


def test_a_pipeline_is_written_as_annotations() -> None:
    step = ScheduleStep("software_pipeline", loops=(LoopAt("Y", 0),), numbers=(0, 1, 1, 0))
    line = line_of(step)
    assert '"software_pipeline_stage", [0, 1])' in line and '"software_pipeline_order", [1, 0])' in line


@pytest.mark.parametrize(
    ("statement", "right"),
    [
        ("Y[v] = A[v] * T.float32(2.0) + T.max(A[v], T.float32(0.0))", True),
        ("Y[v] = A[v] * T.float32(0.1)", False),
        ("Y[v] = A[v] / A[0]", False),
        ("Y[v] = T.exp(A[v])", False),
    ],
)
def test_kernels_that_are_not_exact_are_left_out(statement: str, right: bool) -> None:
    head = 'def func(A: T.Buffer((T.int64(4),), "float32"), Y: T.Buffer((T.int64(4),), "float32")):\n'
    assert exact(head + statement) is right
    assert not exact(head.replace("float32", "float16") + statement)
    assert iterations("for i, j in T.grid(T.int64(4), T.int64(5)):\nfor i in T.grid(3):") == 20


def test_another_failure_does_not_take_the_place_of_the_first() -> None:
    crash = Performed(TRACE, "RUN", "crash", Evidence(signal="SIGSEGV"))
    wrong = Performed(TRACE, "RUN", "wrong-value", Evidence(output="Y"))
    reduction = TraceReduction(lambda traces, lenient: [replace(wrong, trace=trace) for trace in traces], crash)
    assert reduction.fewer_steps() == crash and reduction.all_else() == crash


def test_failures_are_alike_by_message_or_by_who_ended_the_process() -> None:
    raised = Performed(TRACE, "SCHEDULE", "error", Evidence(exception="InternalError", message="Check failed"))
    assert FailureLike.of(raised) == FailureLike.of(replace(raised, trace=TRACE.with_steps((VECTORIZE,))))
    assert FailureLike.of(raised) != FailureLike.of(replace(raised, trace=TRACE.with_steps((SPLIT,))))
    assert FailureLike.of(raised).telling
    assert not FailureLike.of(Performed(TRACE, "RUN", "wrong-value")).telling


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.name)
def test_a_script_of_three_steps_has_at_most_25_lines(function: object) -> None:
    for kind, stage in (("wrong-value", "RUN"), ("out-of-bounds", "RUN"), ("error", "COMPILE"), ("error", "SCHEDULE")):
        trace = Trace(function.name, dict.fromkeys(function.sizes, 3), (SPLIT, VECTORIZE, UNROLL))  # type: ignore[attr-defined]
        text = script_of(trace, kind=kind, stage=stage, about="what is wrong")
        ast.parse(text)
        lines = [line for line in text.splitlines() if line.strip()]
        assert len(lines) <= (25 if function.form == "te" else 30), text  # type: ignore[attr-defined]
