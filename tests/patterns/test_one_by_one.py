"""Passes of TVM one at a time: a wrong one of ours is found, its sound twin is not, and TVM's own keep the meaning."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from driftline.backends import BACKENDS, resolve
from driftline.backends.tvm_passes import PLAIN_RELAX, PLAIN_TENSOR_IR, known_passes
from driftline.campaign.check.session import record
from driftline.checking.batch_requests import PreparedProgram
from driftline.checking.checker import Checker
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.program import Program
from driftline.core.rule import Reach, Rule
from driftline.core.target import Target
from driftline.core.verdict import Judgement
from driftline.coverage.gather import coverage_of
from driftline.execute.pool import Pool
from driftline.patterns.audit import Audit, AuditPlan, NothingTried, chosen_compilers, resumed_plan
from driftline.patterns.one_by_one import PassesOneByOne
from driftline.patterns.onnx_audit import GuiltyRule, OnnxAudit, OnnxAuditPlan
from driftline.patterns.onnx_models import OnnxModels
from driftline.patterns.survey import Made, SurveySeen
from driftline.store import Store

needs_tvm = pytest.mark.skipif(not BACKENDS.get("tvm").installed().available, reason="TVM is not installed")
PLANTED = str(Path(__file__).parent / "tvm_planted_passes.py")


@needs_tvm
def test_every_pass_has_a_place_or_a_reason(pool: Pool) -> None:
    load_plugins([PLANTED])  # the workers of one kind serve all these tests
    passes = {rule.name: rule for rule in PassesOneByOne("planted-tvm", (PLANTED,)).rules(pool)}
    assert "nothing runs without it" in passes["LegalizeOps"].unreachable
    assert "less precision" in passes["ToMixedPrecision"].unreachable
    assert passes["FuseOps"].needs == (("pass", "FuseOps"),) and not passes["tirx.StorageRewrite"].unreachable
    assert not [name for name, rule in passes.items() if "nobody has written down" in rule.unreachable]
    for one in known_passes().values():
        assert one.place in ("", *PLAIN_RELAX, *PLAIN_TENSOR_IR)


def test_targets_with_one_pass() -> None:
    resolve(Target.parse("onnxruntime:pass=none"))
    resolve(Target.parse("onnxscript:pass=version.21"))
    resolve(Target.parse("onnxscript:pass=common.cast_cast_rule"))
    with pytest.raises(DriftlineError, match="Did you mean 'FuseReluClip'"):
        resolve(Target.parse("onnxruntime:pass=FuseReluClips"))
    with pytest.raises(DriftlineError, match="leave out opt="):
        resolve(Target.parse("onnxruntime:pass=FuseReluClip:opt=off"))
    resolve(Target.parse("xla:pass=algsimp"))
    with pytest.raises(DriftlineError, match="Did you mean 'fusion'"):
        resolve(Target.parse("xla:pass=fusions"))
    resolve(Target.parse("tvm:pass=none"))
    resolve(Target.parse("tvm:pass=tirx.StorageRewrite"))
    with pytest.raises(DriftlineError, match="Did you mean 'FuseOps'"):
        resolve(Target.parse("tvm:pass=FuseOp"))
    with pytest.raises(DriftlineError, match="leave out skip="):
        resolve(Target.parse("tvm:pass=FuseOps:skip=StaticPlanBlockMemory"))
    with pytest.raises(DriftlineError, match="--compilers openvino: its passes cannot be listed"):
        chosen_compilers(["openvino"], passes=True)


@pytest.fixture(scope="module")
def planted(checker: Checker) -> tuple[OnnxAudit, list[GuiltyRule]]:
    """The planted passes and some of TVM's own, on a program that adds and subtracts."""
    load_plugins([PLANTED])
    names = ["WrongSubtract", "SoundAdd", "RaisingSubtract", "FuseOps", "StaticPlanBlockMemory", "tirx.StmtSimplify"]
    passes = PassesOneByOne("planted-tvm", (PLANTED,), names)
    audit = OnnxAudit(
        checker,
        passes,
        OnnxAuditPlan(
            budget=900, plugins=(PLANTED,), idioms=["no_ops"], rounds=0, only=lambda rule: rule.name in names
        ),
    )
    return audit, list(audit.run())


@needs_tvm
def test_a_wrong_pass_is_found_and_sound_ones_are_not(planted: tuple[OnnxAudit, list[GuiltyRule]]) -> None:
    audit, found = planted
    kinds = {guilty.rule.name: guilty.failure.kind for guilty in found}
    assert kinds == {"WrongSubtract": "wrong-value", "RaisingSubtract": "error"}
    assert {str(guilty.without) for guilty in found} == {"planted-tvm:pass=none"}
    assert audit.tally.reach["RaisingSubtract"] is Reach.MATCHED  # it raised, and so changed nothing
    for name in ("WrongSubtract", "SoundAdd", "FuseOps", "StaticPlanBlockMemory"):
        assert audit.tally.reach[name] is Reach.FIRED


@needs_tvm
def test_the_bug_is_called_after_the_pass_and_can_be_replayed(
    planted: tuple[OnnxAudit, list[GuiltyRule]], checker: Checker, tmp_path: Path
) -> None:
    with Store.create(tmp_path / "store.db") as store:
        bugs = {guilty.rule.name: record(store, *guilty.failure) for guilty in planted[1]}
        details = {name: bug.fingerprint.detail for name, bug in bugs.items() if bug}
        assert details["WrongSubtract"].endswith("by pass WrongSubtract")
        assert details["RaisingSubtract"].endswith("by pass RaisingSubtract")
        bug = bugs["WrongSubtract"]
        assert bug
        case = store.load_case(bug.findings[0].case_id)
        (again,) = checker.check(case).results
        assert again.verdict.judgement is Judgement.FAIL
        (without,) = checker.check(replace(case, targets=(Target.parse("planted-tvm:pass=none"),))).results
        assert without.verdict.judgement is Judgement.PASS


@needs_tvm
def test_a_test_of_passes_is_resumed_as_such_and_counts_as_coverage(checker: Checker, tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.db") as store:
        load_plugins([PLANTED])
        plan = AuditPlan(("planted-tvm",), "tirx.RemoveAssume", 1.0, passes=True, plugins=(PLANTED,))
        result = Audit(checker, store, plan).run()
        assert [one.rule.name for one in result.compilers["planted-tvm one by one"].rules] == ["tirx.RemoveAssume"]
        entry, again = resumed_plan(store, seconds=600.0, passes=True)
        assert entry.finished and again == replace(plan, seconds=600.0)
        with pytest.raises(DriftlineError, match="no unfinished audit"):
            resumed_plan(store, seconds=600.0)
        level = coverage_of(store, ["planted-tvm"]).compilers[0].level("pass")
        assert level.total > 50 and "tirx.RemoveAssume" in level.missing
        assert level.command.startswith("driftline passes test --compilers planted-tvm")


def test_a_budget_that_ends_while_passes_are_listed(
    checker: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftline.patterns.audit.LISTING", 0.0)
    with Store.create(tmp_path / "store.db") as store, pytest.raises(NothingTried, match="give more with --budget"):
        Audit(checker, store, AuditPlan(("onnxscript",), seconds=0.0, passes=True)).run()
    assert checker.pool.deadline == math.inf


def test_a_budget_that_ends_when_they_are_listed(
    checker: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that nothing was tried, and can be resumed."""
    monkeypatch.setattr("driftline.patterns.audit.LISTING", 300.0)
    with Store.create(tmp_path / "store.db") as store:
        result = Audit(checker, store, AuditPlan(("onnxscript",), seconds=0.0, passes=True)).run()
        (compiler,) = result.compilers
        assert result.cut == [compiler] and not result.bugs
        assert {progress.reach for progress in result.compilers[compiler].rules} == {Reach.NONE}
        _, again = resumed_plan(store, seconds=600.0, passes=True)
        assert again.seconds == 600.0
    assert checker.pool.deadline == math.inf


def test_the_passes_of_inductor_have_names_that_a_target_takes(pool: Pool) -> None:
    passes = {rule.name: rule for rule in PassesOneByOne("inductor").rules(pool)}
    assert "do not compile" in passes["decompose_auto_functionalized"].unreachable
    assert passes["remove_noop_ops"].needs == (("pass", "remove_noop_ops"),)
    assert not passes["joint_graph.pass_patterns.0"].unreachable
    for name in passes:
        target = Target("inductor", None, (("pass", name),))
        assert Target.parse(str(target)) == target


def test_an_optimiser_of_onnx_runtime_alone(checker: Checker) -> None:
    names = ["FuseReluClip", "NotWhereFusion"]
    audit = OnnxAudit(
        checker,
        PassesOneByOne("onnxruntime", names=names),
        OnnxAuditPlan(budget=900, idioms=["relu_clip", "not_where"], rounds=1, only=lambda rule: rule.name in names),
    )
    found = list(audit.run())
    assert {guilty.rule.name for guilty in found} == {"FuseReluClip"}
    assert str(found[0].failure.case.targets[0]) == "onnxruntime:pass=FuseReluClip"
    assert audit.tally.reach["NotWhereFusion"] is Reach.FIRED


def test_a_rule_and_a_pass_of_onnxscript_alone(checker: Checker) -> None:
    names = ["common.successive_clip_rule", "ir.CommonSubexpressionEliminationPass", "version.21", "version.25"]
    audit = OnnxAudit(
        checker,
        PassesOneByOne("onnxscript", names=names),
        OnnxAuditPlan(budget=900, idioms=["clip_clip", "same_twice"], rounds=0, only=lambda rule: rule.name in names),
    )
    found = list(audit.run())
    assert {guilty.rule.name for guilty in found} == {"common.successive_clip_rule"}
    for name in names[1:]:
        assert audit.tally.reach[name] is Reach.FIRED


@pytest.mark.slow
@pytest.mark.skipif(not BACKENDS.get("xla").installed().available, reason="JAX is not installed")
def test_passes_of_xla_alone(pool: Pool) -> None:
    passes = PassesOneByOne("xla", names=["algsimp", "cse", "simplify-sorts"])
    [made] = passes.models(pool, 0).make([("layer_norm", 0)])
    [seen] = passes.ask(pool, passes.target(), [made], {})
    assert seen.fired == ("algsimp", "cse")
    assert seen.differing == {} and not seen.failed


class _ManyIdioms(OnnxModels):
    """Models of which nothing but the name matters."""

    def idioms(self) -> list[str]:
        return [f"idiom{number}" for number in range(60)]

    def make(self, wanted: Sequence[tuple[str, int]]) -> list[Made]:
        program = Program("onnx", "onnx", "0" * 64, Path("unused"), "unused")
        answer = PreparedProgram(program, "", "", (), grad=False, company="plain")
        return [Made(arm, number, answer) for arm, number in wanted]


class _Recorded(PassesOneByOne):
    """One pass, which changes every model; keeps what was told with each question."""

    def __init__(self, late: bool) -> None:
        super().__init__("onnxscript", names=["one"])
        self.told: dict[str, int] = {}
        self._late = late

    def rules(self, pool: Pool) -> list[Rule]:
        return [Rule("onnxscript.one", self.compiler, "", "one", "pass")]

    def models(self, pool: Pool, seed: int) -> OnnxModels:
        return _ManyIdioms(pool, seed)

    def ask(self, pool: Pool, target: Target, models: Sequence[Made], fired: Mapping[str, int]) -> list[SurveySeen]:
        if self._late and len(self.told) % 2:
            threading.Event().wait(0.01)  # others overtake it
        self.told |= {f"{made.number} {made.arm}": fired.get("one", 0) for made in models}
        return [SurveySeen(fired=("one",)) for _ in models]


def test_what_a_batch_knows_does_not_depend_on_how_many_are_in_work(pool: Pool) -> None:
    told = []
    for jobs in (1, 3, 64):
        passes = _Recorded(late=jobs > 1)
        plan = OnnxAuditPlan(budget=900, idioms=_ManyIdioms(pool, 0).idioms(), rounds=0)
        audit = OnnxAudit(Checker(pool, jobs=jobs), passes, plan)
        assert not list(audit.run())
        told.append(passes.told)
    assert told[0] == told[1] == told[2] and len(told[0]) == 120
    assert len(set(told[0].values())) > 2, "later batches know more"
