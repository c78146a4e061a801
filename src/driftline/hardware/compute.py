"""Imitates a device's arithmetic: runs an ATen graph and rounds the result of every operator as the device would.

A deliberately simple approximation: products and sums keep their partial sums in a narrow type, rounded after each
block of terms; results are rounded to the storage type of tensors; subnormal numbers become zero; integers saturate.
Everything else is computed by torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from driftline.hardware.arithmetic import DeviceArithmetic

_INTEGER_SUMS = {"add", "sub", "mul", "neg", "rsub", "sum", "mm", "bmm", "addmm", "baddbmm"}


class DeviceInterpreter:
    """Runs a graph module node by node, with the arithmetic of a device."""

    def __init__(self, module: Any, arithmetic: DeviceArithmetic) -> None:
        import torch.fx

        device = _Device(arithmetic)

        class Interpreter(torch.fx.Interpreter):
            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                return device.call(target, args, kwargs, super().call_function)

        self._interpreter = Interpreter(module)

    def run(self, *args: Any) -> Any:
        return self._interpreter.run(*args)


@dataclass(frozen=True)
class _Convolution:
    """The arguments of aten.convolution."""

    given: Any
    weight: Any
    bias: Any
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[int]
    groups: int


class _Device:
    def __init__(self, arithmetic: DeviceArithmetic) -> None:
        self._arithmetic = arithmetic

    def call(self, target: Any, args: Any, kwargs: Any, honest: Callable[..., Any]) -> Any:
        from torch.utils._pytree import tree_map

        schema = getattr(target, "_schema", None)
        if schema is not None and schema.is_mutable:  # what it writes to must be the tensor itself, not a rounded copy
            return honest(target, args, kwargs)
        packet = getattr(target, "overloadpacket", None)
        name = str(packet).removeprefix("aten.") if packet is not None else ""
        args, kwargs = tree_map(self._stored, (args, kwargs))
        result = self._imitated(name, args, kwargs)
        if result is None:
            result = honest(target, args, kwargs)
        return tree_map(self._stored, result)

    def _imitated(self, name: str, args: Any, kwargs: Any) -> Any:
        """Return the result of an operator that the device computes in its own way, or None for other operators."""
        import torch

        tensors = [one for one in args if isinstance(one, torch.Tensor)]
        if not tensors:
            return None
        if self._arithmetic.saturate and name in _INTEGER_SUMS and all(_narrow(one) for one in tensors):
            return self._saturated(name, args, kwargs, tensors)
        if self._arithmetic.accumulate and all(one.is_floating_point() for one in tensors):
            return self._accumulated(name, args, kwargs)
        return None

    def _saturated(self, name: str, args: Any, kwargs: Any, tensors: list[Any]) -> Any:
        import torch

        dtype = kwargs.get("dtype") or torch.result_type(tensors[0], tensors[-1])
        if dtype not in (torch.int8, torch.int16, torch.int32, torch.uint8):
            return None
        wide = [one.to(torch.int64) if isinstance(one, torch.Tensor) else one for one in args]
        limits = torch.iinfo(dtype)
        kwargs = {key: value for key, value in kwargs.items() if key != "dtype"}
        return getattr(torch.ops.aten, name)(*wide, **kwargs).clamp(limits.min, limits.max).to(dtype)

    def _accumulated(self, name: str, args: Any, kwargs: Any) -> Any:
        if name in ("mm", "bmm"):
            return self._product(args[0], args[1])
        if name in ("addmm", "baddbmm"):
            product = self._product(args[1], args[2])
            return (args[0] * kwargs.get("beta", 1) + product * kwargs.get("alpha", 1)).to(product.dtype)
        if name == "convolution":
            return self._convolution(_Convolution(*args))
        if name == "sum":
            return self._sum(args, kwargs)
        if name == "mean" and not kwargs.get("dtype"):
            total = self._sum(args, kwargs)
            return total / (args[0].numel() / max(total.numel(), 1))
        return None

    def _product(self, left: Any, right: Any) -> Any:
        """Multiply matrices: blocks of the inner dimension are exact, and are added in the narrow type."""
        import torch

        narrow = getattr(torch, self._arithmetic.accumulate)
        length = left.shape[-1]
        total = torch.zeros((*left.shape[:-1], right.shape[-1]), dtype=narrow, device=left.device)
        for start in range(0, length, self._arithmetic.block):
            end = min(start + self._arithmetic.block, length)
            block = left[..., start:end].double() @ right[..., start:end, :].double()
            total = (total.double() + block).to(narrow)
        return total.to(left.dtype)

    def _convolution(self, call: _Convolution) -> Any:
        """Compute a two-dimensional convolution as a product of unfolded windows; None for other convolutions."""
        import torch

        given, weight, bias, groups = call.given, call.weight, call.bias, call.groups
        stride, padding, dilation = call.stride, call.padding, call.dilation
        if call.transposed or given.dim() != 4 or not given.numel():
            return None
        batch, outs = given.shape[0], weight.shape[0]
        kernel = tuple(weight.shape[2:])
        sizes = [
            (given.shape[at + 2] + 2 * padding[at] - dilation[at] * (kernel[at] - 1) - 1) // stride[at] + 1
            for at in (0, 1)
        ]
        parts = []
        for own, filters in zip(given.chunk(groups, 1), weight.chunk(groups, 0), strict=True):
            windows = torch.nn.functional.unfold(own, kernel, tuple(dilation), tuple(padding), tuple(stride))
            parts.append(self._product(filters.reshape(outs // groups, -1).expand(batch, -1, -1), windows))
        result = torch.cat(parts, 1).reshape(batch, outs, *sizes)
        return result if bias is None else result + bias.reshape(1, -1, 1, 1)

    def _sum(self, args: Any, kwargs: Any) -> Any:
        import torch

        given, dims = args[0], args[1] if len(args) > 1 else None
        keep = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
        rank = given.dim()
        chosen = sorted({dim % rank for dim in dims}) if dims else list(range(rank))
        if not chosen:
            return given.clone()
        narrow = getattr(torch, self._arithmetic.accumulate)
        rest = [dim for dim in range(rank) if dim not in chosen]
        rows = given.permute(*rest, *chosen).reshape(*(given.shape[dim] for dim in rest), -1)
        total = torch.zeros(rows.shape[:-1], dtype=narrow, device=given.device)
        for block in rows.split(self._arithmetic.block, -1):
            total = (total.double() + block.double().sum(-1)).to(narrow)
        dtype = kwargs.get("dtype") or given.dtype
        shape = [1 if dim in chosen else given.shape[dim] for dim in range(rank)] if keep else list(total.shape)
        return total.to(dtype).reshape(shape)

    def _stored(self, value: Any) -> Any:
        """Return a tensor with its values rounded as in the device's memory."""
        import torch

        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        arithmetic = self._arithmetic
        if arithmetic.storage and value.dtype == torch.float32:
            value = value.to(getattr(torch, arithmetic.storage)).to(torch.float32)
        if arithmetic.flush_to_zero:
            smallest = torch.finfo(value.dtype).smallest_normal
            value = torch.where(value.abs() < smallest, torch.zeros_like(value).copysign(value), value)
        return value


def _narrow(tensor: Any) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex() and str(tensor.dtype) != "torch.bool"
