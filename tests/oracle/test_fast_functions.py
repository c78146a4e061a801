"""What `fast-exp` allows: tanh by way of exp, and an exponential that stops at the smallest normal number. No more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from onnx import parser

from driftline.core.tensors import Array, Arrays
from driftline.oracle.arithmetic import IEEE, Arithmetic
from driftline.oracle.rule import ShadowAnswer, judge_outputs
from driftline.oracle.shadow.onnx.shadow import OnnxShadow
from driftline.oracle.shadow.player import Player
from driftline.oracle.shadow.task import ask_shadow
from driftline.oracle.shadow.torch.shadow import TorchShadow, record

FAST = Arithmetic(fast_exp=True)
SMALLEST = np.float32(2.0**-126)


def fast_tanh(x: Array) -> Array:
    return (np.float32(1) - np.float32(2) / (np.exp(np.float32(2) * x) + np.float32(1))).astype(np.float32)


def fast_softmax(x: Array) -> Array:
    parts = np.maximum(np.exp(x - x.max()), SMALLEST)
    return np.asarray(parts / parts.sum(), np.float32)


def is_found_in_onnx(name: str, x: Array, got: Array, arithmetic: Arithmetic) -> bool:
    shape = f"float[{x.size}]"
    model: Any = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 18]> g ({shape} x) => ({shape} y) {{ y = {name}(x) }}'
    )
    shadow = OnnxShadow(model, {"x": x}, arithmetic)
    exact = shadow.reference()
    native = {"y": exact["y"].astype(np.float32)}

    def ask(runs: int, outputs: Arrays | None) -> ShadowAnswer:
        return ask_shadow(shadow, runs, outputs)

    return judge_outputs({"y": got}, native, exact, ask, arithmetic).finding is not None


def is_found_in_torch(function: Any, x: Array, got: Array, arithmetic: Arithmetic) -> bool:
    given = torch.from_numpy(x)
    player = Player(TorchShadow(record(lambda: {"y": function(given)}), arithmetic))

    def ask(runs: int, outputs: Arrays | None) -> ShadowAnswer:
        return player.ask(runs, outputs)

    return (
        judge_outputs({"y": got}, {"y": function(given).numpy()}, player.reference(), ask, arithmetic).finding
        is not None
    )


NEAR_ZERO = np.array([3.5e-24, 1e-8, 1e-6, -0.7, 0.6, -0.5, 0.4, 0.09], np.float32)
FAR_APART = np.array([-np.inf, 0.0, 1.0], np.float32)


@pytest.mark.parametrize(
    ("name", "function", "x", "fast"),
    [("Tanh", torch.tanh, NEAR_ZERO, fast_tanh), ("Softmax", lambda x: torch.softmax(x, 0), FAR_APART, fast_softmax)],
    ids=["tanh", "softmax"],
)
def test_only_fast_functions_may_be_so_coarse(name: str, function: Any, x: Array, fast: Any) -> None:
    for is_found, subject in ((is_found_in_onnx, name), (is_found_in_torch, function)):
        got = fast(x)
        assert is_found(subject, x, got, IEEE)
        assert not is_found(subject, x, got, FAST)
        wrong = got.copy()
        wrong[-1] *= np.float32(1.001)
        assert is_found(subject, x, wrong, FAST)
