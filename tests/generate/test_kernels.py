"""Operators that need the same kernel are known to, whatever they are called."""

from __future__ import annotations

import subprocess
import sys

import pytest

from driftline.generate.kernels import kernels
from driftline.generate.table import OPERATORS


@pytest.mark.parametrize(
    ("one", "other"),
    [("log", "log10"), ("erf", "gelu"), ("tanh", "tanhshrink"), ("mm", "linear"), ("conv1d_same", "conv3d"),
     ("layer_norm", "instance_norm"), ("argmax", "topk_by_position"), ("avg_pool1d", "global_avg_pool2d"),
     ("nn.functional.adaptive_max_pool1d", "adaptive_max_pool2d")],
)  # fmt: skip
def test_one_kernel(one: str, other: str) -> None:
    assert kernels(one) & kernels(other)


@pytest.mark.parametrize(
    ("one", "other"), [("log", "tanh"), ("mm", "conv1d"), ("max_pool1d", "avg_pool1d"), ("relu", "select")]
)
def test_several_kernels(one: str, other: str) -> None:
    assert not kernels(one) & kernels(other)


def test_what_only_moves_elements_has_none() -> None:
    assert not kernels("Pad") | kernels("Transpose")
    assert not kernels("transpose") | kernels("select") | kernels("dropout_eval") | kernels("identity")


def test_a_stranger_is_its_own_kernel() -> None:
    assert kernels("FlexAttention") == {"FlexAttention"}
    assert kernels("LayerNormalization") == kernels("layer_norm"), "ONNX's own names are known"


def test_every_operator_can_be_asked_without_onnx() -> None:
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "from driftline.generate.kernels import kernels\n"
        "from driftline.generate.table import OPERATORS\n"
        "print(sum(bool(kernels(name)) for name in OPERATORS))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert len(OPERATORS) / 2 < int(said) < len(OPERATORS)
