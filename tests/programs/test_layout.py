"""Inputs lie in memory as the example's do: strided, expanded, overlapping or shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from driftline.backends._torch import TorchRunner
from driftline.core.program import Program
from driftline.programs.layout import InputLayout
from driftline.programs.live import LiveProgram
from driftline.programs.opened import OpenedProgram
from driftline.programs.torch_tensors import tensor_from_array


def live(function: Any, *example: torch.Tensor) -> LiveProgram:
    return LiveProgram.bind("torch", function, example)


def test_a_plain_input_needs_nothing() -> None:
    assert not InputLayout.of(live(lambda x: x, torch.zeros(3, 4)))


def test_strides_are_kept() -> None:
    transposed = torch.zeros(4, 3).t()
    layout = InputLayout.of(live(lambda x: x, transposed))
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    made = layout.tensors({"x": values}, tensor_from_array)["x"]
    assert made.stride() == transposed.stride()
    np.testing.assert_array_equal(made.numpy(), values)


def test_overlapping_places_hold_what_was_written_last() -> None:
    expanded = torch.zeros(1, 3).expand(2, 3)
    layout = InputLayout.of(live(lambda x: x, expanded))
    settled = layout.settled({"x": np.array([[1.0, 2, 3], [4, 5, 6]], np.float32)})["x"]
    np.testing.assert_array_equal(settled, [[4, 5, 6], [4, 5, 6]])


def test_inputs_that_share_memory_change_together() -> None:
    base = torch.zeros(4)
    program = Program("source", "torch", "", None, "shared")  # type: ignore[arg-type]

    def add_one(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    opened = OpenedProgram.of_live(program, live(add_one, base, base[1:]), example={})
    outputs = TorchRunner(opened, add_one)({"x": np.arange(4, dtype=np.float32), "y": np.array([5, 6, 7], np.float32)})
    np.testing.assert_array_equal(outputs["output"], [12, 14, 16])  # 5, 6, 7 were written last, then one was added
    assert set(outputs) == {"output", "mutated:x", "mutated:y"}
