"""Many roundings to a grid in half precision: what they add up to is legal, and a tile that is left out is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from driftline.checking.batch_tasks import write_program
from driftline.core.tensors import Arrays, TensorSpec
from driftline.core.verdict import Kind
from driftline.generate.base import Blueprint
from driftline.inputs.plan import InputPlan
from driftline.oracle.rule import JudgedOutputs, judge_outputs
from driftline.oracle.shadow.local import LocalShadow
from driftline.programs.opened import OpenedProgram
from driftline.programs.torch_tensors import array_from_tensor

TEXT = """
import torch

def model(x, w, v):
    h = torch.clamp(torch.round((x @ w) * 8.0), -128.0, 127.0).to(torch.int8)
    return (h.to(x.dtype) * 0.125) @ v

def program():
    zeros = [torch.zeros(shape, dtype=torch.bfloat16) for shape in ((ROWS, 64), (64, 96), (96, 33))]
    return model, tuple(zeros)
"""


def quantised(hidden: torch.Tensor) -> torch.Tensor:
    return torch.clamp(torch.round(hidden * 8.0), -128.0, 127.0) * 0.125


@pytest.mark.parametrize("seed", [1, 19])  # with 19, eager lies further off than a few shuffled runs
def test_a_missing_tile_is_found_where_eager_strays(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    rows, scale = int(rng.integers(3, 20)), rng.choice([0.3, 1.0, 3.0])
    shapes, scales = ((rows, 64), (64, 96), (96, 33)), (scale, 0.125, 0.1)
    numbers = [(rng.standard_normal(shape) * by).astype(np.float32) for shape, by in zip(shapes, scales, strict=True)]
    x, w, v = (torch.from_numpy(array).to(torch.bfloat16) for array in numbers)
    arrays: Arrays = {name: array_from_tensor(tensor) for name, tensor in (("x", x), ("w", w), ("v", v))}
    plans = tuple(InputPlan(TensorSpec(name, "bfloat16", array.shape)) for name, array in arrays.items())
    made = Blueprint("torch", TEXT.replace("ROWS", str(rows)), plans, (), ())
    shadow = LocalShadow(
        OpenedProgram(write_program(made, tmp_path / "program", "one"), example=arrays, grad=False), arrays
    )
    exact = shadow.exact()
    (name,) = exact

    def judged(result: torch.Tensor) -> JudgedOutputs:
        eager = quantised(x @ w) @ v
        got, native = ({name: array_from_tensor(tensor)} for tensor in (result, eager))
        return judge_outputs(got, native, exact, lambda runs, outputs: shadow.ask("", runs, outputs))

    wide = quantised(x.float() @ w.float()) @ v.float()
    assert judged(wide.to(torch.bfloat16)).finding is None  # nothing in between is rounded
    order = torch.randperm(64, generator=torch.Generator().manual_seed(seed))
    other = quantised((x[:, order].float() @ w[order].float()).to(torch.bfloat16)) @ v
    assert judged(other).finding is None
    shorter = quantised(x @ w).clone()
    shorter[:, -8:] = 0
    found = judged(shorter @ v).finding
    assert found is not None
    assert found.kind is Kind.WRONG_VALUE
