"""No false alarms: sound models pass, or are rejected, on every compiler and in every dtype.

By default two models on the compilers that take seconds; `slow` is everything.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from driftline.checking.checker import Checker
from driftline.core.target import Target
from driftline.execute.pool import Pool

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import sound_models  # noqa: E402

QUICK_MODELS = ("mlp:float32", "mlp:float16", "layernorm:float32", "layernorm:bfloat16", "onnx_mlp:float64")
QUICK_TARGETS = ("eager", "aot_eager_decomp", "torchscript", "onnxruntime", "onnx-reference")


def _pairs() -> list[Any]:
    targets, _ = sound_models.available_targets(None)
    return [
        pytest.param(
            model,
            target,
            id=f"{model}-{target}",
            marks=() if model in QUICK_MODELS and str(target) in QUICK_TARGETS else pytest.mark.slow,
        )
        for model in sound_models.factories()
        for target in targets
    ]


@pytest.mark.parametrize(("model", "target"), _pairs())
def test_a_sound_model_raises_no_alarm(model: str, target: Target, pool: Pool, checker: Checker) -> None:
    for row in sound_models.run_model(model, [target], 1, pool, checker):
        assert not row.failed or row.known, f"{row.verdict}: {row.reason}"
        # A drift that fresh inputs do not show is no alarm: it is said, and nothing is concluded from it.
        assert row.verdict != "inconclusive" or "chance cannot be ruled out" in row.reason, row.reason


@pytest.mark.slow
def test_a_wrong_model_does_raise_one(pool: Pool, checker: Checker) -> None:
    """The other way round: Inductor's own planted bug in relu is seen in a model that is otherwise sound."""
    (row,) = sound_models.run_model(
        "resnet_block:float32", [Target.parse("inductor:inject_relu_bug=accuracy")], 0, pool, checker
    )
    assert row.verdict == "fail wrong-value"
