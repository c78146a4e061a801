"""Schedules in real workers of TVM: drawn, replayed, reduced, stored, resumed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from driftline.campaign.hunt.watching import replay_all, settle
from driftline.checking.checker import Checker
from driftline.checking.result import ReplayAnswer, Standing
from driftline.core.errors import DriftlineError
from driftline.core.execution import Stage
from driftline.core.target import Target
from driftline.core.verdict import Kind
from driftline.events import BugSeen, Event
from driftline.execute.pool import Pool
from driftline.report.export.schedule import export_schedule
from driftline.report.gather import gather
from driftline.schedules.asking import ScheduleAsker
from driftline.schedules.functions import NAMES
from driftline.schedules.hunt import BATCH, ScheduleHunt, SchedulePlan, resumed
from driftline.schedules.intrinsics import tensorize_ends_the_process
from driftline.schedules.kernels import expanded
from driftline.schedules.naming import FailureLike
from driftline.schedules.recording import record, trace_of
from driftline.schedules.reducing import TraceReduction
from driftline.schedules.requests import Performed
from driftline.schedules.target import unoptimised
from driftline.schedules.trace import LoopAt, ScheduleStep, Trace, read_trace
from driftline.store import Bug, Store
from driftline.store.schedules import BatchBody, ScheduleLog

SPLIT = ScheduleStep("split", loops=(LoopAt("Y", 0),), numbers=(None, 4))
# Bugs of the pinned release: a partitioned reduction is initialised once for each part; `loop_partition` of a loop that
# `merge` made dereferences what is not there.
PARTITION = ScheduleStep("loop_partition", loops=(LoopAt("Y", 1),), numbers=(1, None))
LOST = Trace("row_sum", {"n": 3, "m": 5}, (PARTITION,))
# Another: `reindex_cache_write` leaves the predicate of the split out. LLVM knows where so small a copy ends.
HIDDEN = Trace(
    "scale",
    {"n": 2, "m": 2},
    (
        ScheduleStep("split", loops=(LoopAt("Y", 1),), numbers=(None, 3)),
        ScheduleStep("reindex_cache_write", ("Y",), numbers=(0, 1, 0), word="permute"),
    ),
)


@pytest.fixture(scope="module")
def asker(pool: Pool) -> ScheduleAsker:
    return ScheduleAsker(pool)


def test_drawn_schedules_are_repeatable_and_mostly_right(asker: ScheduleAsker) -> None:
    drawn = asker.draw(range(16), NAMES, "llvm")
    again = asker.draw(range(8), NAMES, "llvm")
    assert [one.trace for one in again] == [one.trace for one in drawn[:8]]
    assert sum(not one.fails for one in drawn) >= 8
    assert sum(len(one.trace.steps) for one in drawn) > 16


def test_a_wrong_schedule_is_found_reduced_and_others_are_right(asker: ScheduleAsker) -> None:
    unroll = ScheduleStep("unroll", loops=(LoopAt("Y", 0),))
    right, wrong = asker.perform(
        [Trace("row_sum", {"n": 3, "m": 5}, (SPLIT,)), Trace("row_sum", {"n": 17, "m": 8}, (SPLIT, PARTITION))]
    )
    assert not right.fails and not right.refused
    assert not wrong.fails  # the loop in that place is a spatial one now
    (wrong,) = asker.perform([Trace("matmul_bias", {"n": 3, "m": 4, "k": 8}, (unroll, MATMUL))])
    assert (wrong.kind, wrong.stage) == ("wrong-value", "RUN")
    reduction = TraceReduction(lambda traces, lenient: asker.perform(traces, lenient=lenient), wrong)
    assert reduction.fewer_steps().trace.primitives == ("loop_partition",)
    assert set(reduction.all_else().trace.sizes.values()) == {2}


MATMUL = ScheduleStep("loop_partition", loops=(LoopAt("M", 2),), numbers=(1, None))


def test_a_step_on_a_block_that_was_made_is_reduced_to_the_first_block(asker: ScheduleAsker) -> None:
    made = ScheduleStep("cache_write", ("Y",), numbers=(0,), word="global")
    wrong = Trace("scale", {"n": 2, "m": 2}, (made, ScheduleStep("cache_index", ("Y_global",), word="global")))
    (found,) = asker.perform([wrong])
    assert (found.kind, found.stage) == ("error", "SCHEDULE")
    reduction = TraceReduction(lambda traces, lenient: asker.perform(traces, lenient=lenient), found)
    assert [step.blocks for step in reduction.fewer_steps().trace.steps] == [("Y",)]


def test_a_schedule_that_ends_its_worker_costs_itself_only(asker: ScheduleAsker) -> None:
    merge = ScheduleStep("merge", loops=(LoopAt("P", 0), LoopAt("Y", 0)))
    partition = ScheduleStep("loop_partition", loops=(LoopAt("P", 0),), numbers=(1, None))
    deadly = Trace("two_steps", {"n": 4, "m": 4}, (merge, partition))
    before, dead, after = asker.perform([Trace("scale", {"n": 2, "m": 2}), deadly, Trace("scale", {"n": 3, "m": 3})])
    assert not before.fails and not after.fails
    assert (dead.kind, dead.stage, dead.evidence.signal) == ("crash", "SCHEDULE", "SIGSEGV")
    assert dead.trace == deadly and FailureLike.of(dead).primitive == "loop_partition"


def test_what_tvm_refuses_and_what_it_leaves_to_the_caller_is_no_finding(asker: ScheduleAsker) -> None:
    illegal = ScheduleStep("compute_inline", blocks=("Y",))
    duty = ScheduleStep("transform_layout", blocks=("Y",), numbers=(0, 1, 0), word="permute")
    of_argmax = Trace("argmax", {"n": 3, "m": 4}, (ScheduleStep("set_scope", ("Y",), numbers=(0,), word="local"),))
    missing = ScheduleStep("split", loops=(LoopAt("Y", 7),), numbers=(None, 2))
    sizes = {"n": 3, "m": 4}
    found = asker.perform([Trace("scale", sizes, (step,)) for step in (illegal, duty, missing)])
    assert [bool(one.refused) for one in found] == [True] * 3 and not any(one.fails for one in found)
    assert "interface" in found[1].refused and "no such block or loop" in found[2].refused
    assert "interface" in asker.perform([of_argmax])[0].refused  # TVM has names of its own for several outputs
    (left,) = asker.perform([Trace("scale", sizes, (illegal, SPLIT))], lenient=True)
    assert left.trace.steps == (SPLIT,) and not left.fails


def test_intrinsics_and_pipelines_compute_the_same(asker: ScheduleAsker) -> None:
    copied = (
        ScheduleStep("cache_read", ("P",), numbers=(0,), word="global"),
        ScheduleStep("tensorize", loops=(LoopAt("A_global", 1),), numbers=(5,), word="copy"),
    )
    added = (
        ScheduleStep("decompose_reduction", ("Y",), (LoopAt("Y", 2),)),
        ScheduleStep("tensorize", loops=(LoopAt("Y_update", 2),), numbers=(3,), word="dot_column"),
    )
    piped = (
        ScheduleStep("compute_at", ("P",), (LoopAt("Y", 0),), (0, -1)),
        ScheduleStep("software_pipeline", loops=(LoopAt("Y", 0),), numbers=(0, 1, 1, 0)),
    )
    chain = {"n": 4, "m": 5}
    found = asker.perform(
        [Trace("two_steps", chain, copied), Trace("matmul", {**chain, "k": 3}, added), Trace("two_steps", chain, piped)]
    )
    assert not any(one.fails for one in found)
    refused = [one.refused for one in found]
    assert not refused[2]
    if tensorize_ends_the_process():  # not the pinned apache-tvm-ffi
        assert all("ends the process" in one for one in refused[:2])
    else:
        assert not any(refused)


def test_a_pipeline_has_a_stage_for_each_statement_that_tvm_counts(asker: ScheduleAsker) -> None:
    """A decomposed argmax has an initialisation of two statements in one block, that of a partition holds both parts,
    and an initialisation that is not decomposed stands under one condition."""
    argmax = ScheduleStep("decompose_reduction", ("Y",), (LoopAt("Y", 1),))
    parts = (
        ScheduleStep("decompose_reduction", ("Y",), (LoopAt("Y", 2),)),
        ScheduleStep("loop_partition", loops=(LoopAt("Y_update", 2),), numbers=(None, 1)),
    )

    def piped(block: str, index: int, *numbers: int) -> ScheduleStep:
        return ScheduleStep("software_pipeline", loops=(LoopAt(block, index),), numbers=numbers)

    found = asker.perform(
        [
            Trace("argmax", {"n": 4, "m": 4}, (argmax, piped("Y_update", 0, 0, 0, 1, 0, 1, 2))),
            Trace("matmul", {"n": 4, "m": 4, "k": 4}, (*parts, piped("Y_init", 1, 0, 1, 1, 0, 1, 2))),
            Trace("argmax", {"n": 4, "m": 4}, (piped("Y", 1, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4),)),
            Trace("argmax", {"n": 4, "m": 4}, (argmax, piped("Y_update", 0, 0, 1, 0, 1))),
            Trace("argmax", {"n": 4, "m": 4}, (piped("Y", 1, 0, 0, 1, 1, 1, 0, 1, 2, 3, 4),)),
            Trace("matmul", {"n": 4, "m": 4, "k": 4}, (*parts, piped("Y_init", 1, 0, 1, 0, 1))),
        ]
    )
    assert [bool(one.refused) for one in found] == [False, False, False, True, True, True]
    assert not any(one.fails for one in found)


@pytest.mark.parametrize("kind", ["vectorize", "parallel"])
def test_a_pipeline_needs_a_loop_that_runs_in_turn(asker: ScheduleAsker, kind: str) -> None:
    at = LoopAt("Y", 0)
    steps = (
        ScheduleStep("compute_at", ("P",), (at,), (0, -1)),
        ScheduleStep(kind, loops=(at,)),
        ScheduleStep("software_pipeline", loops=(at,), numbers=(0, 1, 0, 1)),
    )
    (found,) = asker.perform([Trace("two_steps", {"n": 4, "m": 5}, steps)])
    assert "neither vectorized nor parallel" in found.refused


def test_a_target_that_is_not_llvm_by_name_stays_as_it_is() -> None:
    assert unoptimised("llvm") == {"kind": "llvm", "opt-level": 0}
    assert unoptimised('{"kind": "llvm", "mcpu": "generic"}') == {"kind": "llvm", "mcpu": "generic", "opt-level": 0}
    for target in ("raspberry-pi/4b-aarch64", '{"tag": "raspberry-pi/4b-aarch64"}', "c"):
        assert unoptimised(target) == target


def test_what_llvm_makes_right_again_when_it_is_smaller_is_not_lost(
    pool: Pool, store_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Performed(Trace("row_sum", {"n": 3, "m": 5}, (SPLIT, PARTITION)), Stage.RUN, Kind.WRONG_VALUE)

    def perform(
        self: ScheduleAsker, traces: Sequence[Trace], *, optimised: bool = True, **_: object
    ) -> list[Performed]:
        fails = [bool(trace.steps) and (len(trace.steps) == 2 or not optimised) for trace in traces]
        return [
            replace(wrong, trace=t) if bad else Performed(t, Stage.RUN) for t, bad in zip(traces, fails, strict=True)
        ]

    monkeypatch.setattr(ScheduleAsker, "draw", lambda *_: [wrong])
    monkeypatch.setattr(ScheduleAsker, "perform", perform)
    with Store.create(store_folder) as store:
        result = ScheduleHunt(pool, store, SchedulePlan(("row_sum",), seconds=500.0), jobs=1, batches=1).run()
        (bug,) = store.bugs()
    assert result.bugs == {bug.id} and bug.fingerprint.detail.startswith("split > loop_partition")


def test_what_llvm_hides_when_it_optimises_is_a_bug_of_the_build_without_it(
    pool: Pool, store_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy without its predicate writes outside the result; LLVM takes the write out where it optimises."""
    drawn = ScheduleAsker(pool).perform([HIDDEN], optimised=False)
    assert drawn[0].fails
    if ScheduleAsker(pool).perform([HIDDEN], fresh=True)[0].fails:
        pytest.skip("LLVM leaves the write in on this processor")
    monkeypatch.setattr(ScheduleAsker, "draw", lambda *_: drawn)
    with Store.create(store_folder) as store:
        result = ScheduleHunt(pool, store, SchedulePlan((HIDDEN.function,), seconds=500.0), jobs=1, batches=1).run()
        (bug,) = store.bugs()
        trace = trace_of(store.load_case(store.bug(bug.id).findings[0].case_id))
    assert result.unconfirmed == 0 and bug.fingerprint.detail.endswith("at opt-level 0")
    assert trace.target == '{"kind": "llvm", "opt-level": 0}'
    assert ScheduleAsker(pool).perform([trace], fresh=True)[0].fails


def test_a_time_out_is_not_remembered(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may have been the reason; an answer that TVM gave stays."""
    answers = [
        Performed(LOST, Stage.RUN, Kind.TIMEOUT),
        Performed(Trace(""), refused="its worker ended"),
        Performed(LOST, Stage.RUN, Kind.WRONG_VALUE),
    ]
    asked = iter(answers)
    monkeypatch.setattr(ScheduleAsker, "perform", lambda self, traces, **how: [next(asked)])
    asker = ScheduleAsker(pool)
    found = [asker.perform_once([LOST], lenient=False, build=True, optimised=True)[0] for _ in range(5)]
    assert found == [*answers, answers[-1], answers[-1]]


def test_kernels_of_a_model_are_scheduled_and_keep_their_text(
    asker: ScheduleAsker, pool: Pool, tmp_path: Path, store_folder: Path
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save_model(small_network(), str(path))
    functions, kernels = expanded(("scale", str(path)), pool)
    assert functions[0] == "scale" and set(kernels) == set(functions[1:])
    (matmul,) = [name for name in kernels if "matmul" in name]
    assert not [name for name in kernels if "softmax" in name]  # it divides
    kernel = kernels[matmul]
    drawn = asker.draw(range(3), (matmul,), "llvm", kernels)
    assert {one.trace.kernel for one in drawn} == {kernel} and drawn[0].trace == read_trace(drawn[0].trace.dump())
    partition = ScheduleStep("loop_partition", loops=(LoopAt("matmul", 2),), numbers=(1, None))
    (lost,) = asker.perform([Trace(matmul, steps=(partition,), kernel=kernel)])
    assert lost.kind == "wrong-value"
    with Store.create(store_folder) as store:
        bug = record(store, lost, lost.trace, 0)
        assert bug.fingerprint.detail == "loop_partition of model kernel"
        assert export_schedule(bug, lost.trace).valid
    with pytest.raises(DriftlineError, match="no model 'resnett'"):
        expanded(("model:resnett",), pool)


def small_network() -> onnx.ModelProto:
    node = onnx.helper.make_node
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 4])
    w = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [3, 4], [1.0] * 12)
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["b"]), node("Softmax", ["b"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "network", [x], [y], [w])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)


def test_a_hunt_keeps_bugs_at_once_and_goes_on_where_it_was(pool: Pool, store_folder: Path) -> None:
    plan = SchedulePlan(("row_sum",), seconds=500.0, seed=1)
    events: list[Event] = []
    with Store.create(store_folder) as store:
        log = ScheduleLog(store)
        entry = log.begin({**vars(plan)})
        log.keep(entry, 0, BatchBody({"right": BATCH}), 1.0)  # a hunt that was killed after its first batch
        going, again = resumed(store)
        assert again == plan
        hunt = ScheduleHunt(pool, store, again, entry=going, jobs=1, batches=2, listener=events.append)
        result = hunt.run()
        assert result.schedules == 2 * BATCH
        assert set(result.sightings) == {bug.id for bug in store.bugs()}
        assert {event.bug.id for event in events if isinstance(event, BugSeen)} == set(result.sightings)
        assert len(log.batches(entry)) == 2 and log.hunts()[0].finished
        with pytest.raises(DriftlineError, match="no unfinished schedule hunt"):
            resumed(store)
    pool.deadline = float("inf")
    assert gather(store_folder).environment.facts["schedules"].startswith(f"{2 * BATCH} in 1 hunt")


def test_a_stored_bug_is_shown_and_exported_as_a_script_that_was_run(asker: ScheduleAsker, store_folder: Path) -> None:
    (found,) = asker.perform([LOST], fresh=True)
    with Store.create(store_folder) as store:
        bug = record(store, found, LOST, 0)
        assert trace_of(store.load_case(bug.findings[0].case_id)) == LOST
        made = export_schedule(bug, LOST)
    assert made.valid, made.reason
    assert made.lines <= 25 and "driftline" not in made.text
    (view,) = gather(store_folder).bugs
    assert view.title.startswith("row_sum after loop_partition: ") and view.title.endswith(" is right")
    assert 's.loop_partition(s.get_loops("Y")[1], [1, None])' in view.script


def unmeasured(bug: Bug, target: Target) -> tuple[ReplayAnswer, str]:
    raise AssertionError(f"{bug.id} is not about cost")


def test_watching_runs_a_schedule_again(asker: ScheduleAsker, checker: Checker, tmp_path: Path) -> None:
    """A bug of the pinned release still fails; one whose trace is right now is fixed."""
    (lost,) = asker.perform([LOST])
    assert lost.fails
    sound = replace(lost, trace=replace(LOST, steps=(SPLIT,)))
    with Store.create(tmp_path / "store") as store:
        for found in (lost, sound):
            record(store, found, found.trace, 0)
        replayed = list(replay_all(store, checker, {"tvm": Target("tvm")}, unmeasured, lambda line: None))
        told = {one.bug.fingerprint.detail: one.standing for one in settle(store, replayed, None)}
    assert sorted(told.values()) == [Standing.FIXED, Standing.STILL_FAILS]
    assert next(s for detail, s in told.items() if "loop_partition" in detail) is Standing.STILL_FAILS


def test_a_budget_too_short_to_begin_is_not_overrun(pool: Pool, tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        hunt = ScheduleHunt(pool, store, SchedulePlan(("row_sum",), seconds=0.0), jobs=1)
        with pytest.raises(DriftlineError, match="give more with --budget"):
            hunt.run()
        assert pool.deadline == math.inf and not store.bugs()
