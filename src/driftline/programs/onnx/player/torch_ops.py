"""Operations that torch does not have, registered with it so that a recorder sees them like any other."""

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
    """The result of a function whose textbook formula passes numbers of that size on the way, so that their rounding
    remains in it: sigmoid as 1/2 + tanh(x/2)/2, elu as exp(x) - 1."""
    answer: torch.Tensor = torch.ops.driftline.through(result, size)
    return answer


def evaluated(inputs: list[torch.Tensor | None], evaluator: Evaluator) -> list[torch.Tensor]:
    """What a function outside of torch makes of these tensors, as one operation."""
    _EVALUATORS.append(evaluator)
    answer: list[torch.Tensor] = torch.ops.driftline.onnx_node(inputs, len(_EVALUATORS) - 1)
    return answer
