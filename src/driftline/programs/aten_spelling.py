"""Writes ATen overloads as people write them: `aten.sum.dim_IntList(x, [0], True)` is `torch.sum(x, [0], True)`.

An overload takes the same arguments as its function, so most overloads need only the right path. The table is for
overloads that ordinary code spells differently; an overload without a public spelling is written as `torch.ops...`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from driftline.programs.torch_names import path_of

Write = Callable[[Any], str]  # an argument as text
Spelling = Callable[[Sequence[Any], Mapping[str, Any], Write], str]

_SPACES = ("torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft", "torch.Tensor")


def spelled(overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any], write: Write) -> str:
    """Return the call as text; as `torch.ops...` if there is no public spelling."""
    space, _, name = overload._schema.name.partition("::")
    special = _SPECIAL.get(f"{space}.{name}")
    if special:
        text = special(args, kwargs, write)
        if text:
            return text
    path = user_path(overload)
    return call_text(path or str(path_of(overload)), args, kwargs, write)


@lru_cache(4096)
def user_path(overload: Any) -> str | None:
    """Return the public path of an overload: `torch.add` for aten.add.Tensor, `.expand` for a method; None if only
    `torch.ops` reaches it."""
    space, _, name = overload._schema.name.partition("::")
    if space != "aten" or name.startswith("_"):
        return None
    for where in _SPACES:
        holder: Any = torch
        for part in where.split(".")[1:]:
            holder = getattr(holder, part)
        if callable(getattr(holder, name, None)) and not isinstance(getattr(holder, name), type):
            if where == "torch.nn.functional" and name not in _SAME_ARGUMENTS:
                continue
            return f".{name}" if where == "torch.Tensor" else f"{where}.{name}"
    return None


def call_text(path: str, args: Sequence[Any], kwargs: Mapping[str, Any], write: Write) -> str:
    """Return the text of a call, of a method if the path starts with a dot."""
    named = [f"{key}={write(value)}" for key, value in kwargs.items()]
    if path.startswith("."):
        return f"{write(args[0])}{path}({', '.join([*map(write, args[1:]), *named])})"
    return f"{path}({', '.join([*map(write, args), *named])})"


# Functions of torch.nn.functional with the same arguments as the overload of the same name.
_SAME_ARGUMENTS = frozenset(
    "gelu silu mish leaky_relu elu hardtanh hardswish hardsigmoid softplus log_sigmoid linear relu6 celu selu glu"
    " pixel_shuffle one_hot max_pool2d_with_indices adaptive_avg_pool2d scaled_dot_product_attention".split()
)


def _argument(args: Sequence[Any], kwargs: Mapping[str, Any], at: int, name: str, default: Any = None) -> Any:
    return args[at] if at < len(args) else kwargs.get(name, default)


def _cast(args: Sequence[Any], kwargs: Mapping[str, Any], write: Write) -> str:
    return f"{write(args[0])}.to({write(_argument(args, kwargs, 1, 'dtype'))})"


def _softmax(name: str) -> Spelling:
    def text(args: Sequence[Any], kwargs: Mapping[str, Any], write: Write) -> str:
        if _argument(args, kwargs, 2, "half_to_float", False):
            return f"torch.{name}({write(args[0])}, {write(args[1])}, dtype=torch.float32)"
        return f"torch.{name}({write(args[0])}, {write(args[1])})"

    return text


def _slice(args: Sequence[Any], kwargs: Mapping[str, Any], write: Write) -> str:
    dim = _argument(args, kwargs, 1, "dim", 0)
    start, end = _argument(args, kwargs, 2, "start"), _argument(args, kwargs, 3, "end")
    step = _argument(args, kwargs, 4, "step", 1)
    if not isinstance(dim, int) or dim < 0:
        return ""
    end = None if isinstance(end, int) and end >= 2**31 else end
    shown = [write(value) if value is not None else "" for value in (start, end)]
    part = ":".join(shown) + (f":{write(step)}" if step != 1 else "")
    return f"{write(args[0])}[{', '.join([':'] * dim + [part])}]"


def _index(args: Sequence[Any], kwargs: Mapping[str, Any], write: Write) -> str:
    places = [":" if place is None else write(place) for place in args[1]]
    return f"{write(args[0])}[{', '.join(places)}]"


def _iota(args: Sequence[Any], kwargs: Mapping[str, Any], write: Write) -> str:
    length, start, step = args[0], kwargs.get("start", 0), kwargs.get("step", 1)
    if not all(isinstance(value, int) for value in (length, start, step)):
        return ""
    stop = start + length * step
    ends = str(stop) if (start, step) == (0, 1) else f"{start}, {stop}, {step}"
    return f"torch.arange({ends}, dtype={write(kwargs.get('dtype', torch.int64))})"


def _drop_device(path: str) -> Spelling:
    """Return a spelling for a factory function that omits arguments with their default values."""
    idle = {"device": torch.device("cpu"), "layout": torch.strided, "pin_memory": False}

    def text(args: Sequence[Any], kwargs: Mapping[str, Any], write: Write) -> str:
        kept = {k: v for k, v in kwargs.items() if v is not None and not (k in idle and v == idle[k])}
        return call_text(path, args, kept, write)

    return text


def _convolution(args: Sequence[Any], kwargs: Mapping[str, Any], write: Write) -> str:
    if len(args) != 9 or kwargs:
        return ""
    image, weight, bias, stride, padding, dilation, transposed, output_padding, groups = args
    dimensions = len(stride)
    if transposed:
        rest = (stride, padding, output_padding, groups, dilation)
        return call_text(f"F.conv_transpose{dimensions}d", (image, weight, bias, *rest), {}, write)
    return call_text(f"F.conv{dimensions}d", (image, weight, bias, stride, padding, dilation, groups), {}, write)


def _renamed(path: str) -> Spelling:
    return lambda args, kwargs, write: call_text(path, args, kwargs, write)


_SPECIAL: dict[str, Spelling] = {
    "prims.convert_element_type": _cast,
    "aten._to_copy": lambda args, kwargs, write: (
        f"{write(args[0])}.to({write(kwargs['dtype'])})" if set(kwargs) == {"dtype"} else ""
    ),
    "aten._softmax": _softmax("softmax"),
    "aten._log_softmax": _softmax("log_softmax"),
    "aten.slice": _slice,
    "aten.index": _index,
    "prims.iota": _iota,
    "aten._int_mm": _renamed("torch._int_mm"),
    "aten.convolution": _convolution,
    "prims._low_memory_max_pool_with_offsets": _renamed("F.max_pool2d_with_indices"),  # its original
    "aten._unsafe_view": _renamed(".reshape"),
    "aten.view": _renamed(".view"),
    "aten.reshape": _renamed(".reshape"),
    "aten.expand": _renamed(".expand"),
    "aten.permute": _renamed(".permute"),
    "aten.transpose": _renamed(".transpose"),
    "aten.t": _renamed(".t"),
    "aten.select": _renamed(".select"),
    "aten.sym_size": _renamed(".size"),
    "aten.full": _drop_device("torch.full"),
    "aten.zeros": _drop_device("torch.zeros"),
    "aten.ones": _drop_device("torch.ones"),
    "aten.arange": _drop_device("torch.arange"),
    "aten.full_like": _drop_device("torch.full_like"),
    "aten.randn": _drop_device("torch.randn"),
    "aten.rand": _drop_device("torch.rand"),
    "aten.randperm": _drop_device("torch.randperm"),
    "aten._scaled_dot_product_flash_attention_for_cpu": lambda args, kwargs, write: "",
}
