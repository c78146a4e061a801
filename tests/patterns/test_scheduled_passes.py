"""Passes of TensorIR on functions with schedule primitives: a pass that breaks one is found, with a script that shows
it; what is wrong without the pass is not put down to it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from driftline.backends import BACKENDS
from driftline.backends.tvm_passes import TENSOR_IR, known_passes
from driftline.checking.checker import Checker
from driftline.core.errors import StoreError
from driftline.core.rule import Reach
from driftline.coverage.gather import coverage_of
from driftline.execute.pool import Pool
from driftline.patterns.audit import SCHEDULED, Audit, AuditPlan
from driftline.patterns.scheduled_passes import BATCH, PassAsker, ScheduledPasses, ScheduledPlan
from driftline.patterns.step_memory import StepMemory
from driftline.report.export.schedule import export_schedule
from driftline.report.passes import passes_json
from driftline.schedules.asking import ScheduleAsker
from driftline.schedules.functions import FUNCTIONS
from driftline.schedules.passes import needed_by, pipeline_lines
from driftline.schedules.recording import trace_of
from driftline.schedules.requests import Performed
from driftline.schedules.settling import Settling
from driftline.schedules.trace import LoopAt, ScheduleStep, Trace
from driftline.store import Store

pytestmark = pytest.mark.skipif(not BACKENDS.get("tvm").installed().available, reason="TVM is not installed")
PLACED, COMPACT = "s_tir.PlanAndUpdateBufferAllocationLocation", "s_tir.CompactBufferAllocation"
PIPELINE, UNROLL = "s_tir.InjectSoftwarePipeline", "tirx.UnrollLoop"
SIZES = {"n": 4, "m": 4}


def _chain(*steps: ScheduleStep) -> Trace:
    return Trace("two_steps", SIZES, steps)


def _moved(index: int) -> ScheduleStep:
    return ScheduleStep("compute_at", ("P",), (LoopAt("Y", index),), (0, -1))


COLUMNS = ScheduleStep("vectorize", loops=(LoopAt("Y", 1),))
# A bug of the pinned release: the buffer of one row becomes one number for all lanes of the row.
INSIDE, OUTSIDE = _chain(COLUMNS, _moved(1)), _chain(COLUMNS, _moved(0))
PIPED = _chain(_moved(0), ScheduleStep("software_pipeline", loops=(LoopAt("Y", 0),), numbers=(0, 1, 1, 0)))
UNROLLED = _chain(ScheduleStep("unroll", loops=(LoopAt("Y", 1),)))
LOST = Trace("row_sum", {"n": 3, "m": 5}, (ScheduleStep("loop_partition", (), (LoopAt("Y", 1),), (1, None)),))


@pytest.fixture(scope="module")
def asker(pool: Pool) -> PassAsker:
    return PassAsker(pool)


def test_a_schedule_is_right_with_each_sound_pass(asker: PassAsker) -> None:
    tried = [PIPED.with_passes(PIPELINE), UNROLLED.with_passes(UNROLL), OUTSIDE.with_passes(COMPACT)]
    for found in asker.perform([*tried, INSIDE.with_passes(), INSIDE.with_passes(PLACED)]):
        assert not found.fails and not found.refused, found


def test_a_pass_that_breaks_a_schedule_is_found_and_stored_under_its_name(pool: Pool, tmp_path: Path) -> None:
    asker = PassAsker(pool)
    (found,) = asker.perform([INSIDE.with_passes(COMPACT)])
    assert found.kind == "wrong-value"
    with Store.create(tmp_path / "store") as store:
        bug = store.bug(Settling(asker, asker, store, threading.Lock(), set()).settle(found))
        assert bug.fingerprint.detail.endswith(f"of elementwise chain by pass {COMPACT}")
        case = store.load_case(bug.findings[0].case_id)
        assert [str(target) for target in case.targets] == [f"tvm:pass={COMPACT}"]
        trace = trace_of(case)
        assert trace.passes == (COMPACT,) and len(trace.steps) == 2
        made = export_schedule(bug, trace)
    assert made.valid, made.reason
    assert "driftline" not in made.text and COMPACT in made.text


def test_what_is_wrong_without_the_pass_is_not_put_down_to_it(asker: PassAsker, pool: Pool) -> None:
    tried = LOST.with_passes("tirx.StmtSimplify")
    assert ScheduleAsker(pool).perform([tried])[0].fails
    (found,) = asker.perform([tried])
    assert not found.fails and "without the pass" in found.refused


def test_a_schedule_that_leaves_its_own_buffers_says_nothing_of_a_pass(asker: PassAsker) -> None:
    """`reindex_cache_write` leaves a predicate out: what it writes beside its copy may be another buffer."""
    split = ScheduleStep("split", loops=(LoopAt("P", 1),), numbers=(None, 3))
    copied = ScheduleStep("reindex_cache_write", ("P",), numbers=(0, 1, 0), word="permute")
    wrong, right = (Trace("two_steps", {"n": 2, "m": m}, (split, copied)) for m in (2, 3))
    for found in asker.perform([wrong.with_passes(), wrong.with_passes("tirx.StorageRewrite")]):
        assert not found.fails and "accesses P_global outside of it" in found.refused
    assert not asker.perform([right.with_passes("tirx.StorageRewrite")])[0].refused


def test_no_unscheduled_function_is_said_to_leave_its_buffers(asker: PassAsker) -> None:
    """Padding reads under a condition, and a gather where its indices say."""
    plain = [Trace(function.name, dict.fromkeys(function.sizes, 5)).with_passes() for function in FUNCTIONS]
    assert not [(one.trace.function, one.refused, one.kind) for one in asker.perform(plain) if one.refused or one.fails]


def test_what_a_pass_needs_goes_with_it_and_is_no_reason_to_blame_it() -> None:
    parallel = ScheduleStep("parallel", loops=(LoopAt("Y", 0),))
    assert needed_by(UNROLLED.with_passes(UNROLL)) == ()
    assert needed_by(_chain(parallel).with_passes(UNROLL)) == (PLACED,)
    assert needed_by(UNROLLED.with_passes(COMPACT)) == (PLACED,)
    assert needed_by(UNROLLED.with_passes(PLACED)) == ()
    (steps,) = [line for line in pipeline_lines(UNROLLED.with_passes(COMPACT)) if line.startswith("TENSOR_IR")]
    assert steps.index(PLACED) < steps.index(COMPACT) < steps.index("s_tir.LowerMatchBuffer")
    with pytest.raises(StoreError, match=r"the pass 'tirx\.Unknown'"):
        pipeline_lines(UNROLLED.with_passes("tirx.Unknown"))


def test_scheduled_functions_fire_passes_that_plain_ones_do_not(pool: Pool, tmp_path: Path) -> None:
    names = [name for name, one in known_passes().items() if one.level == TENSOR_IR]
    kept: dict[str, object] = {}
    plan = ScheduledPlan(tuple(names), budget=500, batches=1)
    with Store.create(tmp_path / "store") as store:
        test = ScheduledPasses(pool, store, plan, memory=StepMemory(keep=kept.update))
        list(test.run())
        tally = test.tally
        assert tally.schedules + tally.unfit == BATCH and tally.schedules >= BATCH / 2
        assert {UNROLL, "tirx.StorageRewrite"} <= set(tally.changed) <= set(names)
        # A later run takes up what was kept, and does not do it again.
        again = ScheduledPasses(pool, store, plan, memory=StepMemory({"0": vars(tally)}))
        assert not list(again.run()) and again.tally == tally
    assert list(kept) == ["0"]


@pytest.mark.slow
def test_a_test_of_passes_says_which_ones_only_schedules_fire(
    checker: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs of models have no pipelines; here every schedule has one."""

    def draw(
        self: PassAsker, seeds: Sequence[int], functions: Sequence[str], target: str, *, passes: Sequence[str]
    ) -> list[Performed]:
        return [Performed(PIPED, changed_by=tuple(passes))] * len(seeds)

    monkeypatch.setattr(PassAsker, "draw", draw)
    monkeypatch.setattr("driftline.patterns.audit.SHARE_OF_PROGRAMS", 0.2)
    with Store.create(tmp_path / "store") as store:
        result = Audit(checker, store, AuditPlan(("tvm",), PIPELINE, 30.0, passes=True)).run()
        (one,) = result.compilers[SCHEDULED].rules
        assert one.reach is Reach.FIRED and result.compilers[SCHEDULED].only_scheduled == (PIPELINE,)
        assert passes_json(result, store)["compilers"]["tvm"]["changed_only_scheduled"] == [PIPELINE]
        assert not result.bugs
        assert PIPELINE not in coverage_of(store, ["tvm"]).compilers[0].level("pass").missing
