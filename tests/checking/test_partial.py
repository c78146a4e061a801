"""What was not judged is not passed: outputs behind operators of unknown meaning, empty results, unstable outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from driftline.campaign.check.session import check_program
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.checking.result import CheckResult
from driftline.core.case import CheckOptions
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.target import parse_targets
from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement, Verdict
from driftline.oracle.judge import Reference, ReferenceSample, TargetTraits, judge
from driftline.store import Store

MODEL = """<ir_version: 8, opset_import: ["" : 18, "my.own": 1]> g (float[4] x) => ({outputs}) {{
    a = Add(x, x) y = my.own.Unknown(a) w = Neg(y) z = Relu(a) }}"""
TRAIT = TargetTraits(calls_user_code=True, positional=False)


def checked(checker: Checker, folder: Path, outputs: str) -> CheckResult:
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(MODEL.format(outputs=outputs)), str(path))
    options = CheckOptions()
    with Store.create(folder / "store") as store:
        opened = open_program(str(path), checker.pool, options)
        targets = parse_targets("onnxruntime")
        return check_program(checker, store, opened, targets=targets, inputs="random", options=options)


def test_outputs_behind_an_unknown_operator_are_not_judged(checker: Checker, tmp_path: Path) -> None:
    result = checked(checker, tmp_path, "float[4] w")
    assert result.results[0].verdict.judgement is Judgement.INCONCLUSIVE
    assert not result.compared
    result = checked(checker, tmp_path, "float[4] w, float[4] z")
    assert result.results[0].verdict.judgement is Judgement.PASS
    assert "judged 1 of 2 outputs (z): agrees with the reference" in result.results[0].verdict.reason


def judged(outputs: Arrays, sample: ReferenceSample) -> Verdict:
    return judge(Execution("any", Outcome.OK, Stage.RUN, (outputs,)), Reference((sample,)), TRAIT)


def test_program_without_a_result_is_no_pass() -> None:
    verdict = judged({}, ReferenceSample({}, {}))
    assert verdict.judgement is Judgement.INCONCLUSIVE and "there is nothing to compare" in verdict.reason


def test_empty_results_are_judged_by_shape_and_dtype() -> None:
    native = {"output": np.zeros((0, 3), np.float32)}
    assert judged(native, ReferenceSample(native, native)).judgement is Judgement.PASS
    other = {"output": np.zeros((3, 0), np.float32)}
    assert judged(other, ReferenceSample(native, native)).judgement is Judgement.FAIL


def test_verdict_names_outputs_that_were_not_judged() -> None:
    native = {"a": np.ones(3, np.float32), "b": np.ones(3, np.float32)}
    spread = {"a": np.zeros(3), "b": np.full(3, np.inf)}
    got = {name: np.nextafter(array, np.float32(2)) for name, array in native.items()}
    verdict = judged(got, ReferenceSample(native, spread=spread))
    assert verdict.reason.startswith("judged 1 of 2 outputs, not b: agrees with the reference")
