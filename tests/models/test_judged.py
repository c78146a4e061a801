"""A few telling models on a few compilers: none fails, and none is left without a judgement."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from driftline.campaign.check.session import draw_case
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import CheckOptions
from driftline.core.target import parse_targets
from driftline.core.verdict import Judgement
from driftline.execute.pool import Pool


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        pytest.param("llama", "eager,onnxruntime,openvino", marks=pytest.mark.slow),
        pytest.param("resnet", "eager,onnxruntime", marks=pytest.mark.slow),
        ("graph-net", "eager,onnxruntime,openvino"),
        ("mobilenet-v2-qdq", "onnxruntime:opt=off"),
    ],
)
def test_a_model_of_the_corpus_is_judged(name: str, targets: str, pool: Pool, checker: Checker) -> None:
    assert verdicts(f"model:{name}", targets, pool, checker)


def test_bert_as_optimum_writes_it_is_judged(tmp_path: Path, pool: Pool, checker: Checker) -> None:
    """Opset 14 and dynamic axes: inputs are made from what the file says, and the reference knows every operator."""
    path = tmp_path / "bert.onnx"
    command = [sys.executable, "-m", "driftline", "models", "export", "bert", "--as", "onnx", "--out", str(path)]
    subprocess.run([*command, "--exporter", "torchscript", "--opset", "14"], check=True, capture_output=True)
    assert verdicts(str(path), "onnxruntime,openvino", pool, checker)


def verdicts(program: str, targets: str, pool: Pool, checker: Checker) -> bool:
    options = CheckOptions()
    opened = open_program(program, pool, options)
    case, reference = draw_case(checker, opened, parse_targets(targets), options, "example", 1)
    outcome = checker.check(case, known_reference=reference)
    assert not outcome.skipped
    for result in outcome.results:
        assert result.verdict.judgement is Judgement.PASS, f"{result.target}: {result.verdict}"
    return bool(outcome.results)
