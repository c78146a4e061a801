"""Functions of torch are written by the names that people call them by."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


def test_a_function_that_equals_another_keeps_its_own_name() -> None:
    """`torch.mm == torch.dsmm` holds, whichever is asked about first."""
    from driftline.programs.torch_names import path_of

    assert [path_of(torch.dsmm), path_of(torch.mm)] == ["torch.dsmm", "torch.mm"]
    assert path_of(torch.nn.functional.linear) == "torch.nn.functional.linear"
    assert path_of(torch.Tensor.add_) == ".add_"
