"""ONNX Runtime's optimisers: named, fired, and audited, with the ones that are wrong found and named."""

from __future__ import annotations

import platform

import pytest
from onnx_audits import audit

from driftline.backends import BACKENDS, resolve
from driftline.checking.checker import Checker
from driftline.core.errors import DriftlineError
from driftline.core.rule import Reach
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Kind
from driftline.execute.pool import Pool
from driftline.patterns.onnxruntime import OnnxRuntimeRules

pytestmark = pytest.mark.skipif(
    not BACKENDS.get("onnxruntime").installed().available, reason="ONNX Runtime is not installed"
)


def test_optimisers_are_listed_with_their_level_or_why_they_cannot_fire(pool: Pool) -> None:
    rules = {rule.name: rule for rule in OnnxRuntimeRules().rules(pool)}
    assert len(rules) > 70
    assert (rules["FuseReluClip"].kind, rules["FuseReluClip"].unreachable) == ("rewrite rule", "")
    assert rules["MatMulScaleFusion"].group == "extended"
    assert "CUDA" in rules["BiasDropoutFusion"].unreachable
    assert rules["GeluApproximation"].needs == (("enable", "GeluApproximation"),)
    assert sum(not rule.unreachable for rule in rules.values()) > 55


def test_what_the_processor_has_no_kernels_for_is_said(pool: Pool) -> None:
    rules = {rule.name: rule for rule in OnnxRuntimeRules().rules(pool)}
    blocks, signed, fusion = (
        rules[name] for name in ("NchwcTransformer", "QDQS8ToU8Transformer", "ConvAddActivationFusion")
    )
    assert fusion.group == "layout" and not fusion.unreachable
    if platform.machine() == "aarch64":
        assert blocks.group == "not run" and "not on this processor: ONNX Runtime has no kernels" in blocks.unreachable
        assert signed.group == "not run" and "not on this processor: its kernels take signed" in signed.unreachable
        assert fusion.needs == ()
    else:
        assert blocks.group == "layout" and not blocks.unreachable and not signed.unreachable
        assert fusion.needs == (("disable", "NchwcTransformer"),)


def test_an_optimiser_off_by_default_can_be_asked_for() -> None:
    resolve(Target.parse("onnxruntime:enable=GeluApproximation"))
    with pytest.raises(DriftlineError, match="GeluApproximation"):
        resolve(Target.parse("onnxruntime:enable=GeluAproximation"))


def test_relu_before_clip_breaks_in_float64_and_the_rule_is_named(checker: Checker) -> None:
    made, found = audit(checker, OnnxRuntimeRules(), ["relu_clip"], ["FuseReluClip"])
    assert made.tally.reach["FuseReluClip"] is Reach.FIRED
    [suspect] = [suspect for suspect in found if suspect.change == "float64"]
    assert (suspect.rule.name, suspect.failure.result.verdict.kind) == ("FuseReluClip", Kind.ERROR)
    off = OnnxRuntimeRules().without(suspect.failure.case.targets[0], suspect.rule)
    assert off == Target.parse("onnxruntime:disable=FuseReluClip")
    again = checker.check(suspect.failure.case.only(off))
    assert again.results[0].verdict.judgement is Judgement.PASS


def test_a_layer_norm_is_recognised_whatever_its_exponent(checker: Checker) -> None:
    _, found = audit(
        checker, OnnxRuntimeRules(), ["layer_norm_2d"], ["LayerNormFusionL1", "LayerNormFusionL2"], rounds=2
    )
    assert found, "an exponent that is not 2 makes it another computation"
    assert {suspect.failure.result.verdict.kind for suspect in found} <= {Kind.WRONG_VALUE, Kind.WRONG_NONFINITE}


def test_a_sound_optimiser_is_not_accused(checker: Checker) -> None:
    made, found = audit(checker, OnnxRuntimeRules(), ["not_where", "div_mul"], ["NotWhereFusion"])
    assert made.tally.reach["NotWhereFusion"] is Reach.FIRED
    assert found == []


def test_rounding_of_large_sums_is_no_fault_of_a_fusion(checker: Checker) -> None:
    """The noise of a normalisation is known also where its weights are constants of the model."""
    made, found = audit(checker, OnnxRuntimeRules(), ["skip_layer_norm_bias"], ["SkipLayerNormFusion"], rounds=0)
    assert made.tally.reach["SkipLayerNormFusion"] is Reach.FIRED
    assert found == []


def test_who_merely_prepares_the_ground_is_not_blamed(checker: Checker) -> None:
    """Constants have to be folded before a scale can be moved behind the product, where it comes too late."""
    both = ["ConstantFolding", "MatMulScaleFusion"]
    made, [suspect] = audit(checker, OnnxRuntimeRules(), ["optests:FlexAttention"], both, rounds=0)
    assert made.tally.reach["ConstantFolding"] is Reach.FIRED
    assert (suspect.rule.name, suspect.failure.result.verdict.kind) == ("MatMulScaleFusion", Kind.WRONG_NONFINITE)


def test_texts_inside_a_model_are_not_made_results(checker: Checker) -> None:
    made, found = audit(checker, OnnxRuntimeRules(), ["labels_twice"], ["LabelEncoderFusion"])
    assert made.tally.reach["LabelEncoderFusion"] is Reach.FIRED
    assert found == []
