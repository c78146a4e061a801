"""Runs a generated program as its framework does, for the tests of generators."""

from __future__ import annotations

from typing import Any

import onnx
import torch

from driftline.generate.base import Blueprint
from driftline.inputs.strategies import INPUTS
from driftline.programs.layout import InputLayout
from driftline.programs.live import LiveProgram
from driftline.programs.onnx.evaluator import make_evaluator
from driftline.programs.torch_tensors import tensor_from_array


def runs(made: Blueprint, seed: str, gradients: bool = False) -> str:
    """Run it as its framework does; what went wrong, or nothing."""
    arrays = INPUTS.get("random").draw(made.inputs, seed).arrays
    try:
        if isinstance(made.content, bytes):
            model = onnx.load_model_from_string(made.content)
            onnx.checker.check_model(model, full_check=True)
            make_evaluator(model).run(None, arrays)
        else:
            space: dict[str, Any] = {}
            exec(made.content, space)
            function, example = space["program"]()
            live = LiveProgram.bind("torch", function, example)
            placed = InputLayout.of(live).tensors(
                dict(zip(live.arguments, arrays.values(), strict=True)), tensor_from_array
            )
            tensors = [
                placed.get(n, tensor_from_array(a)) for n, a in zip(live.arguments, arrays.values(), strict=True)
            ]
            with torch.set_grad_enabled(gradients):
                function(*tensors)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
