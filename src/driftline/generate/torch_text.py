"""Calls of torch functions as Python text: functions by their public paths, tensors by name, the rest as literals."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from driftline.generate.base import NoProgram

# Where functions are looked for, the most readable path first.
_SPACES = (
    "torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.masked",
    "torch.signal.windows", "torch.sparse", "torch.Tensor", "torch._C._nn",
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One call that was made."""

    function: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    result: Any


def calls_of(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Call], Any]:
    """The call itself when the function has a path, else the calls that it makes in turn; and the result."""
    if path_of(function):
        result = function(*args, **kwargs)
        return [Call(function, args, kwargs, result)], result
    with _Recorder() as recorder:
        result = function(*args, **kwargs)
    return recorder.calls, result


class _Recorder(TorchFunctionMode):
    """Notes every call of a torch function, but not those that the function makes inside."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls.append(Call(func, args, kwargs or {}, result))
        return result


@lru_cache(4096)
def path_of(function: Any) -> str | None:
    """`torch.nn.functional.pad`; `.view` for a method, `.T` with no call for a property."""
    if getattr(function, "__name__", "") == "__get__":
        return f".{function.__self__.__name__}"
    if type(function).__name__ in ("OpOverload", "OpOverloadPacket"):
        return f"torch.ops.{str(function).replace('::', '.')}"
    return _paths().get(function)


@lru_cache(1)
def _paths() -> dict[Any, str]:
    """Every function of torch by identity. Of several names it takes the function's own, then a public one."""
    found: dict[Any, str] = {}
    for space in _SPACES:
        holder: Any = torch
        for part in space.split(".")[1:]:
            holder = getattr(holder, part)
        values = {name: getattr(holder, name, None) for name in dir(holder)}
        own = {name: getattr(value, "__name__", "") == name for name, value in values.items()}
        for name in sorted(values, key=lambda name: (not own[name], name.startswith("_"), name)):
            value = values[name]
            if callable(value) and not isinstance(value, type) and isinstance(value, Hashable):
                found.setdefault(value, f".{name}" if space == "torch.Tensor" else f"{space}.{name}")
    return found


@dataclass
class Writer:
    """Writes calls one after another. Tensors that no call has made become inputs: x0, x1, in the order of use."""

    lines: list[str] = field(default_factory=list)
    inputs: list[torch.Tensor] = field(default_factory=list)
    _names: dict[int, str] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)  # an id is only good while its object lives
    _made: int = 0

    def write(self, calls: Sequence[Call], result: Any) -> str:
        """Adds all calls but the last as lines; gives the expression of the result."""
        for call in calls[:-1]:
            self.assign(self._call(call), call.result)
        if calls and calls[-1].result is result:
            return self._call(calls[-1])
        if calls:
            self.assign(self._call(calls[-1]), calls[-1].result)
        return self.literal(result)

    def assign(self, expression: str, value: Any) -> str:
        """A line that gives the value a name."""
        name = f"v{self._made}"
        self._made += 1
        self.lines.append(f"{name} = {expression}")
        self._bind(value, name)
        return name

    def _bind(self, value: Any, name: str) -> None:
        if isinstance(value, torch.Tensor):
            self._names[id(value)] = name
            self._kept.append(value)
        elif isinstance(value, (tuple, list)):
            for at, item in enumerate(value):
                self._bind(item, f"{name}[{at}]")

    def knows(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._names

    def _call(self, call: Call) -> str:
        path = path_of(call.function)
        if path is None:
            raise NoProgram(f"no path is known of {call.function}")
        args = [self.literal(arg) for arg in call.args]
        named = [f"{key}={self.literal(value)}" for key, value in call.kwargs.items()]
        if not path.startswith("."):
            return f"{path}({', '.join([*args, *named])})"
        if not call.args or not isinstance(call.args[0], torch.Tensor):
            raise NoProgram(f"{path} is called on something else than a tensor")
        if getattr(call.function, "__name__", "") == "__get__":
            return f"{args[0]}{path}"
        if path == ".__getitem__":
            return f"{args[0]}[{args[1]}]"
        return f"{args[0]}{path}({', '.join([*args[1:], *named])})"

    def literal(self, value: Any) -> str:
        """Python text for an argument."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, bool) or value is None or value is Ellipsis:
            return "..." if value is Ellipsis else repr(value)
        if isinstance(value, (int, str)):
            return repr(value) if type(value) in (int, str) else self._refuse(value)
        if isinstance(value, float):
            return repr(float(value)) if math.isfinite(value) else f'float("{float(value)}")'
        if isinstance(value, complex):
            return f"complex({self.literal(value.real)}, {self.literal(value.imag)})"
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return str(value)
        if isinstance(value, torch.device):
            return f'torch.device("{value}")'
        if isinstance(value, list):
            return f"[{', '.join(map(self.literal, value))}]"
        if isinstance(value, tuple):
            return f"({', '.join(map(self.literal, value))}{',' * (len(value) == 1)})"
        if isinstance(value, slice):
            return f"slice({', '.join(self.literal(v) for v in (value.start, value.stop, value.step))})"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{self.literal(k)}: {self.literal(v)}' for k, v in value.items())}}}"
        return self._refuse(value)

    def _refuse(self, value: Any) -> str:
        raise NoProgram(f"{type(value).__name__} cannot be written as text")

    def _tensor(self, tensor: torch.Tensor) -> str:
        if id(tensor) not in self._names:
            self._names[id(tensor)] = f"x{len(self.inputs)}"
            self._kept.append(tensor)
            self.inputs.append(tensor)
        return self._names[id(tensor)]


def program_text(writer: Writer, result: str, inputs: Sequence[str]) -> str:
    """The whole file. `inputs` are expressions for the examples."""
    names = [f"x{number}" for number in range(len(inputs))]
    lines = ["import torch", "", "", f"def model({', '.join(names)}):"]
    lines += [f"    {line}" for line in [*writer.lines, f"return {result}"]]
    lines += ["", "", "def program():"]
    lines += [f"    {name} = {text}" for name, text in zip(names, inputs, strict=True)]
    lines += [f"    return model, ({', '.join(names)}{',' * (len(names) == 1)})", ""]
    return "\n".join(lines)


def example_text(tensor: torch.Tensor, *, numbers: bool, fill: str = "zeros") -> str:
    """An example of an input: its layout stays when a case brings its own numbers. `numbers`: write those it has."""
    shape, stride, offset = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
    end = f"dtype={tensor.dtype})"
    written = f"torch.tensor({Writer().literal(tensor.detach().tolist())}, {end}" if numbers and tensor.numel() else ""
    if tensor.is_contiguous() and not offset:
        return written or f"torch.{fill}({shape}, {end}"
    if not tensor.numel():
        return f"torch.empty_strided({shape}, {stride}, {end}"
    length = offset + 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
    placed = f"torch.{fill}({length}, {end}.as_strided({shape}, {stride}{f', {offset}' if offset else ''})"
    return f"{placed}.copy_({written})" if written else placed
