"""onnxscript's rewrite rules, and the backend that applies them."""

from __future__ import annotations

import pytest
from onnx_audits import audit

from driftline.backends import BACKENDS, resolve
from driftline.backends.onnxscript_names import unknown_rule
from driftline.checking.checker import Checker
from driftline.core.errors import DriftlineError
from driftline.core.rule import Reach
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Kind
from driftline.execute.pool import Pool
from driftline.patterns.onnxscript_rules import OnnxScriptRules

pytestmark = pytest.mark.skipif(
    not BACKENDS.get("onnxscript").installed().available, reason="onnxscript is not installed"
)


def test_rules_have_names_places_and_patterns(pool: Pool) -> None:
    rules = {rule.name: rule for rule in OnnxScriptRules().rules(pool)}
    assert len(rules) > 100
    cast = rules["common.cast_cast_rule"]
    assert cast.needs == () and "onnxscript/rewriter/rules/common" in cast.where
    assert cast.text.count("Cast") == 2 and "anonymous" not in cast.text
    assert rules["ort_fusions.gelu._erf_rule"].needs == (("rules", "ort_fusions.gelu._erf_rule"),)
    again = {rule.name: rule for rule in OnnxScriptRules().rules(pool)}
    assert again == rules


def test_a_name_that_cannot_be_one_is_refused() -> None:
    resolve(Target.parse("onnxscript:rules=common.cast_cast_rule+common.add_0_rule"))
    with pytest.raises(DriftlineError, match="not the name of a rule"):
        resolve(Target.parse("onnxscript:rules=cast cast"))


def test_a_rule_that_is_not_there_is_refused_with_a_near_one() -> None:
    with pytest.raises(DriftlineError, match=r"no rule 'nonsense'"):
        resolve(Target.parse("onnxscript:skip=nonsense"))
    with pytest.raises(DriftlineError, match=r"Did you mean 'common.successive_clip_rule'"):
        resolve(Target.parse("onnxscript:skip=common.succesive_clip_rule"))
    resolve(Target.parse("onnxscript@0.1.0:skip=common.of_another_release"))


def test_no_rule_is_refused(pool: Pool) -> None:
    """Names are looked up in the files of the package: every rule that it has when it runs must be found there."""
    assert [rule.name for rule in OnnxScriptRules().rules(pool) if unknown_rule(rule.name)] == []


def test_clips_without_declared_types_break_the_rule(checker: Checker) -> None:
    """The rule reads the element type of a value that a valid model need not declare."""
    _, found = audit(checker, OnnxScriptRules(), ["clip_clip"], ["common.successive_clip_rule"], rounds=0)
    [suspect] = found
    assert (suspect.rule.name, suspect.failure.result.verdict.kind) == ("common.successive_clip_rule", Kind.ERROR)
    assert "NoneType" in suspect.failure.result.verdict.reason
    skipped = checker.check(suspect.failure.case.only(Target.parse("onnxscript:skip=common.successive_clip_rule")))
    assert skipped.results[0].verdict.judgement is Judgement.PASS


def test_a_sound_rule_is_not_accused(checker: Checker) -> None:
    rule = "common.transpose_transpose_rule"
    made, found = audit(checker, OnnxScriptRules(), ["transpose_transpose"], [rule])
    assert made.tally.reach[rule] is Reach.FIRED
    assert found == []


def test_what_fails_unchanged_is_not_put_down_to_a_change(checker: Checker) -> None:
    """The rule breaks on types that are not declared, whatever else is done to the model."""
    _, found = audit(checker, OnnxScriptRules(), ["clip_clip"], ["common.successive_clip_rule"])
    assert [suspect.change for suspect in found] == [""]


def test_a_dtype_in_which_it_shows_is_named(checker: Checker) -> None:
    """A constant of 1e-9 is taken for zero: float64 has the digits in which that is seen."""
    _, found = audit(checker, OnnxScriptRules(), ["optests:MeanVarianceNormalization"], ["common.add_0_rule"])
    assert [suspect.change for suspect in found] == ["float64"]


def test_products_of_integers_are_exact(checker: Checker) -> None:
    """The witness must not round what the rule leaves right."""
    rule = "common.transpose_b_matmul_add_to_gemm_rule"
    made, found = audit(checker, OnnxScriptRules(), ["matmul_right_transposed_add"], [rule])
    assert made.tally.reach[rule] is Reach.FIRED
    assert not [suspect for suspect in found if suspect.change == "int64"]
