"""The player's matrix products."""

from __future__ import annotations

import torch
from torch import Tensor

from driftline.programs.onnx.player.call import NodeCall, onnx_op


@onnx_op("MatMul")
def matmul(call: NodeCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.matmul(a, b)


@onnx_op("Gemm")
def gemm(call: NodeCall, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    a = a.t() if call.attr("transA", 0) else a
    b = b.t() if call.attr("transB", 0) else b
    alpha, beta = call.attr("alpha", 1.0), call.attr("beta", 1.0)
    if not a.is_floating_point():
        alpha, beta = int(alpha), int(beta)
    product = torch.matmul(a, b)
    product = product if alpha == 1 else alpha * product
    if c is None:
        return product
    return product + (c if beta == 1 else beta * c)


@onnx_op("Einsum")
def einsum(call: NodeCall, *operands: Tensor) -> Tensor:
    return torch.einsum(call.attr("equation").decode(), *operands)


@onnx_op("Det")
def determinant(call: NodeCall, x: Tensor) -> Tensor:
    return torch.linalg.det(x)
