"""A target that computes float64 in float32 rounds its inputs too: no finding. A wrong result still is one."""

from __future__ import annotations

from collections.abc import Callable
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

NARROW = Arithmetic(double_as_single=True)
RANDOM = np.random.default_rng(5)
CLOSE = 1.002 + RANDOM.random((8, 4)) / 100  # what is left of it, less one, has lost two digits
SCORES = 1000.0 + RANDOM.random((8, 4))
STEPS = np.array([1 - 2.0**-50, 2 - 2.0**-40, 3.5, 2.25])  # the first two round up to an integer

# name, the operators, the inputs, and the same in float32
MODELS: list[tuple[str, str, Array, Callable[[Array], Array]]] = [
    ("an input", "one = Constant<value = double {1.0}>() y = Sub(x, one)", CLOSE, lambda x: x - np.float32(1)),
    ("a product", "y = Mul(x, x)", CLOSE, lambda x: x * x),
    ("an exponent", "y = Softmax<axis=-1>(x)", SCORES, lambda x: _softmax(x)),
    ("a step", "f = Floor(x) y = Sub(x, f)", STEPS, lambda x: x - np.floor(x)),
]


def _softmax(x: Array) -> Array:
    parts = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(parts / parts.sum(axis=-1, keepdims=True))


def is_found(model: Any, x: Array, got: Array, arithmetic: Arithmetic) -> bool:
    shadow = OnnxShadow(model, {"x": x}, arithmetic)
    exact = shadow.reference()

    def ask(runs: int, outputs: Arrays | None) -> ShadowAnswer:
        return ask_shadow(shadow, runs, outputs)

    return judge_outputs({"y": got}, exact, exact, ask, arithmetic).finding is not None


def made(body: str, shape: tuple[int, ...], initializers: str = "") -> Any:
    kind = f"double[{','.join(map(str, shape))}]"
    return parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 18]> g ({kind} x) => ({kind} y) {initializers} {{ {body} }}'
    )


@pytest.mark.parametrize(("body", "x", "single"), [row[1:] for row in MODELS], ids=[row[0] for row in MODELS])
def test_what_comes_of_rounded_inputs(body: str, x: Array, single: Callable[[Array], Array]) -> None:
    model = made(body, x.shape)
    got = single(x.astype(np.float32)).astype(np.float64)
    assert not is_found(model, x, got, NARROW)
    assert is_found(model, x, got, IEEE)
    wrong = got.copy()
    wrong.reshape(-1)[-1] *= 1.01
    assert is_found(model, x, wrong, NARROW)


def test_what_comes_of_rounded_constants() -> None:
    weights = CLOSE[0]
    model = made("y = Sub(x, w)", (4,), f"<double[4] w = {{{','.join(map(repr, weights.tolist()))}}}>")
    x = np.ones(4)
    got = (x.astype(np.float32) - weights.astype(np.float32)).astype(np.float64)
    assert not is_found(model, x, got, NARROW)
    assert is_found(model, x, got, IEEE)


def test_numbers_that_float32_holds_are_exact() -> None:
    """Halves and integers lose nothing: their difference is as exact as before."""
    x = np.array([1.5, 2.5, -3.0, 4.25])
    model = made("one = Constant<value = double {1.5}>() y = Sub(x, one)", (4,))
    assert not is_found(model, x, x - 1.5, NARROW)
    assert is_found(model, x, x - 1.5 + np.array([0.0, 1e-6, 0.0, 0.0]), NARROW)


def test_numbers_beyond_the_range_are_still_wrong() -> None:
    x = np.array([1e80, 2.0])
    assert is_found(made("y = Neg(x)", (2,)), x, np.array([-3.4028234663852886e38, -2.0]), NARROW)


def test_no_rounding_makes_the_largest_number_infinite() -> None:
    x = np.array([np.finfo(np.float64).max, 2.0])
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (double[2] x) => (bool[2] y) { y = IsInf(x) }'
    )
    assert is_found(model, x, np.array([True, False]), NARROW)
    assert not is_found(model, x, np.array([False, False]), NARROW)


@pytest.mark.parametrize("writes", [False, True])
def test_torch_programs(writes: bool) -> None:
    given = torch.from_numpy(CLOSE)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.clone().sub_(1.0) if writes else x - 1.0

    def is_found_in(got: Array, arithmetic: Arithmetic) -> bool:
        player = Player(TorchShadow(record(lambda: {"y": program(given)}), arithmetic))

        def ask(runs: int, outputs: Arrays | None) -> ShadowAnswer:
            return player.ask(runs, outputs)

        native = {"y": program(given).numpy()}
        return judge_outputs({"y": got}, native, player.reference(), ask, arithmetic).finding is not None

    got = (CLOSE.astype(np.float32) - np.float32(1)).astype(np.float64)
    assert not is_found_in(got, NARROW)
    assert is_found_in(got, IEEE)
    assert is_found_in(got * 1.01, NARROW)
