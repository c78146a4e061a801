"""Operations registered with torch, so that a recorder sees them like torch's own."""

from __future__ import annotations

from collections.abc import Callable

import torch

_LIBRARY = torch.library.Library("driftline", "DEF")
_LIBRARY.define("through(Tensor result, Tensor size) -> Tensor")
_LIBRARY.define("onnx_node(Tensor?[] inputs, int number) -> Tensor[]")

Evaluator = Callable[[list[torch.Tensor | None]], list[torch.Tensor]]
_EVALUATORS: list[Evaluator] = []


def _through(result: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    return result.clone()


def _onnx_node(inputs: list[torch.Tensor | None], number: int) -> list[torch.Tensor]:
    return _EVALUATORS[number](inputs)


_LIBRARY.impl("through", _through, "CompositeExplicitAutograd")
_LIBRARY.impl("onnx_node", _onnx_node, "CompositeExplicitAutograd")


def through(result: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    """Return `result`, marked as computed through intermediate numbers as large as `size`, whose rounding remains in
    it: sigmoid as 1/2 + tanh(x/2)/2, elu as exp(x) - 1."""
    answer: torch.Tensor = torch.ops.driftline.through(result, size)
    return answer


def evaluated(inputs: list[torch.Tensor | None], evaluator: Evaluator) -> list[torch.Tensor]:
    """Run a function outside of torch on these tensors, as one torch operation."""
    _EVALUATORS.append(evaluator)
    answer: list[torch.Tensor] = torch.ops.driftline.onnx_node(inputs, len(_EVALUATORS) - 1)
    return answer
