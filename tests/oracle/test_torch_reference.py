"""The meaning of a torch program is what torch computes without a library of optimised kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from driftline.core.program import Program
from driftline.oracle.references.torch_reference import TorchReference
from driftline.programs.live import LiveProgram
from driftline.programs.opened import OpenedProgram


def test_the_reference_runs_without_onednn() -> None:
    """Where that is wrong, eager is wrong as well, and all that use it would agree."""
    seen = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch.backends.mkldnn.enabled)
        return x + 1

    live = LiveProgram.bind("torch", function, (torch.zeros(2),))
    program = OpenedProgram.of_live(Program("source", "torch", "", Path("x"), "x"), live, example={})
    outputs = TorchReference(program).native({"x": np.zeros(2, np.float32)})
    assert [array.tolist() for array in outputs.values()] == [[1.0, 1.0]]
    assert seen == [False]
    assert torch.backends.mkldnn.enabled, "only there"
