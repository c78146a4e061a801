"""Write calls of torch functions as Python text: functions by their public paths, tensors by name, the rest as
literals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from driftline.generate.base import NoProgram
from driftline.programs.torch_names import Unwritable, literal, path_of


@dataclass(frozen=True)
class WrittenCall:
    """A call that was made, with its result."""

    function: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    result: Any


def calls_of(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[WrittenCall], Any]:
    """Run a function. Returns the call itself if the function has a public path, else the calls that it makes; and the
    result."""
    if path_of(function):
        result = function(*args, **kwargs)
        return [WrittenCall(function, args, kwargs, result)], result
    with _Recorder() as recorder:
        result = function(*args, **kwargs)
    return recorder.calls, result


class _Recorder(TorchFunctionMode):
    """Records every call of a torch function, but not the calls made inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[WrittenCall] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls.append(WrittenCall(func, args, kwargs or {}, result))
        return result


@dataclass
class Writer:
    """Writes calls one after another. Tensors that no call made become inputs x0, x1, ..., in the order of use."""

    lines: list[str] = field(default_factory=list)
    inputs: list[torch.Tensor] = field(default_factory=list)
    _names: dict[int, str] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)  # an id is only good while its object lives
    _made: int = 0

    def write(self, calls: Sequence[WrittenCall], result: Any) -> str:
        """Add all calls but the last as lines, and return the expression of the result."""
        for call in calls[:-1]:
            self.assign(self._call(call), call.result)
        if calls and calls[-1].result is result:
            return self._call(calls[-1])
        if calls:
            self.assign(self._call(calls[-1]), calls[-1].result)
        return self.literal(result)

    def assign(self, expression: str, value: Any) -> str:
        """Add a line that gives the value a name, and return the name."""
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
        """True if the tensor already has a name."""
        return id(tensor) in self._names

    def _call(self, call: WrittenCall) -> str:
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
        """Return Python text for an argument."""
        try:
            return literal(value, lambda item: self._tensor(item) if isinstance(item, torch.Tensor) else None)
        except Unwritable as reason:
            raise NoProgram(str(reason)) from reason

    def _tensor(self, tensor: torch.Tensor) -> str:
        if id(tensor) not in self._names:
            self._names[id(tensor)] = f"x{len(self.inputs)}"
            self._kept.append(tensor)
            self.inputs.append(tensor)
        return self._names[id(tensor)]


def program_text(writer: Writer, result: str, inputs: Sequence[str]) -> str:
    """Return the whole file. `inputs` are expressions for the example inputs."""
    names = [f"x{number}" for number in range(len(inputs))]
    lines = ["import torch", "", "", f"def model({', '.join(names)}):"]
    lines += [f"    {line}" for line in [*writer.lines, f"return {result}"]]
    lines += ["", "", "def program():"]
    lines += [f"    {name} = {text}" for name, text in zip(names, inputs, strict=True)]
    lines += [f"    return model, ({', '.join(names)}{',' * (len(names) == 1)})", ""]
    return "\n".join(lines)


def example_text(tensor: torch.Tensor, *, numbers: bool, fill: str = "zeros") -> str:
    """Return an expression for an example input with the tensor's layout. With `numbers`, it also has the tensor's
    values."""
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
