"""TVM's passes: listed, seen to change modules, left out by name; sound ones are not accused."""

from __future__ import annotations

import pytest
from onnx_audits import audit

from driftline.backends import BACKENDS, resolve
from driftline.checking.checker import Checker
from driftline.core.errors import DriftlineError
from driftline.core.rule import Reach
from driftline.core.target import Target
from driftline.execute.pool import Pool
from driftline.patterns.onnx_models import OnnxModels
from driftline.patterns.tvm import TvmRules

pytestmark = pytest.mark.skipif(not BACKENDS.get("tvm").installed().available, reason="TVM is not installed")


def test_passes_transforms_and_patterns_are_listed(pool: Pool) -> None:
    rules = {rule.name: rule for rule in TvmRules().rules(pool)}
    assert rules["LegalizeOps"].group == "Relax pipeline" and not rules["LegalizeOps"].unreachable
    assert rules["tirx.StorageRewrite"].group == "TensorIR pipeline"
    assert rules["FuseOps"].needs == (("passes", "FuseOps"),)
    patterns = [rule for rule in rules.values() if rule.kind == "fusion pattern"]
    assert patterns and all(rule.unreachable for rule in patterns)


def test_what_cannot_be_left_out_is_said() -> None:
    resolve(Target.parse("tvm:skip=StaticPlanBlockMemory+tirx.StorageRewrite:passes=FuseOps"))
    with pytest.raises(DriftlineError, match="nothing compiles without LegalizeOps"):
        resolve(Target.parse("tvm:skip=LegalizeOps"))
    with pytest.raises(DriftlineError, match="Did you mean 'StaticPlanBlockMemory'"):
        resolve(Target.parse("tvm:skip=StaticPlanMemory"))
    with pytest.raises(DriftlineError, match="Did you mean 'FoldConstant'"):
        resolve(Target.parse("tvm:passes=FoldConstants"))


def test_every_rule_can_be_left_out_or_has_no_target_without_it(pool: Pool) -> None:
    rules = TvmRules().rules(pool)
    targets = [target for rule in rules if (target := TvmRules().without(Target("tvm"), rule))]
    assert len(targets) > 50
    for target in targets:
        resolve(target)


def test_passes_that_change_a_module_are_seen(pool: Pool) -> None:
    [made] = OnnxModels(pool, 0).make([("same_twice", 0)])
    [answer] = TvmRules().ask(pool, Target("tvm"), [made], {})
    assert {"LegalizeOps", "CallTIRRewrite", "EliminateCommonSubexpr", "FuseOps"} <= set(answer.fired)
    assert "s_tir.ThreadSync" not in answer.fired
    assert answer.differing == {}


def test_a_sound_transform_is_not_accused(checker: Checker) -> None:
    made, found = audit(checker, TvmRules(), ["transpose_transpose"], ["CanonicalizeBindings", "FuseOps"], rounds=0)
    assert made.tally.reach["FuseOps"] is Reach.FIRED
    assert found == []
