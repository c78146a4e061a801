"""Shared code of the backends that run torch code: arrays in, the user's callable, arrays out.

Gradients and changed inputs are results like any other: they appear as outputs called `grad:<name>` and
`mutated:<name>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftline.backends.base import Backend, Options, Unsupported
from driftline.core.files import BIG
from driftline.core.structure import flatten
from driftline.core.tensors import Array, Arrays, is_float
from driftline.core.tracker import PYTORCH
from driftline.programs.live import is_tensor, to_array
from driftline.programs.opened import OpenedProgram

_PARAMETERS = "named_parameters"

# Messages of torch's libraries about programs that they do not support.
_MISSING = re.compile(r"module 'torch[\w.]*' has no attribute")
_DECLINED = re.compile("cudnn RNN backward can only be called in training mode|There was no fake impl registered for")


class TorchBackend(Backend):
    """Base of the backends that call a torch callable."""

    accepts = ("source:torch", "torch")
    module = "torch"
    distribution = "torch"
    extra = "torch"
    tracker = PYTORCH
    family = "eager"
    kernels = "eager"
    gradients = True
    mutates = True

    def wake_device(self) -> None:
        import torch

        if torch.cuda.is_available():
            torch.zeros(1, device="cuda")

    def device_answers(self) -> bool:
        """True if the GPU works. Also frees the memory of earlier programs for other processes."""
        import torch

        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return bool((torch.ones(2, device="cuda").sum() == 2).item())

    def find_devices(self) -> tuple[str, ...]:
        import torch

        return tuple(device for device in self.devices if device == "cpu" or torch.cuda.is_available())

    def is_rejection(self, error: BaseException) -> bool:
        return super().is_rejection(error) or is_missing_here(error) or bool(_DECLINED.search(str(error)))


def is_missing_here(error: BaseException) -> bool:
    """True if the program calls a function that this release of torch lacks. A program for a newer release says nothing
    about an older one."""
    return isinstance(error, AttributeError) and bool(_MISSING.match(str(error)))


def placed(function: Callable[..., Any], options: Options) -> tuple[Callable[..., Any], str]:
    """Return the callable with its weights on the target's device, and that device.

    A GPU is set to compute as the target's `arithmetic` declares. By default torch uses TF32 in cuDNN's convolutions
    and recurrences only, and adds partial sums in half precision.
    """
    import torch

    device = options.get("device", "cpu")
    if device == "cpu":
        return function, device
    if not torch.cuda.is_available():
        raise Unsupported(f"no GPU is visible to this worker; leave device={device} out")
    declared = options.get("arithmetic", "").split("+")
    products = torch.backends.cuda.matmul
    torch.backends.cudnn.allow_tf32 = products.allow_tf32 = "tf32" in declared
    products.allow_fp16_reduced_precision_reduction = "half-accumulation" in declared
    products.allow_bf16_reduced_precision_reduction = "half-accumulation" in declared
    return (function.to(device) if isinstance(function, torch.nn.Module) else function), device


class TorchRunner:
    """Wraps a callable on tensors as a callable on arrays. It returns the results, the gradients if the program asks
    for them, and the inputs and buffers that were changed."""

    def __init__(self, program: OpenedProgram, function: Callable[..., Any], device: str = "cpu") -> None:
        self._program = program
        self._function = function
        self._device = device
        self._calls = TorchCalls(program, device)

    def __call__(self, arrays: Arrays) -> Arrays:
        return as_arrays(self.tensors(arrays))

    def tensors(self, arrays: Arrays) -> dict[str, Any]:
        """Run the callable on arrays, and return the outputs as tensors."""
        call = self._calls.prepare(arrays)
        return self._calls.outputs(call, self._result(call))

    def bare(self, arrays: Arrays) -> Callable[[], object]:
        """Return a call to be timed: see `bare_call`. On a GPU it waits until the device has finished."""
        import torch

        call = self._calls.prepare(arrays)
        if self._device == "cpu":
            return lambda: self._result(call)

        def synchronised() -> object:
            result = self._result(call)
            torch.cuda.synchronize()
            return result

        return synchronised

    def _result(self, call: TorchCall) -> Any:
        import torch

        with torch.set_grad_enabled(self._program.grad):
            result = self._function(*call.args, **call.kwargs)
        if self._program.grad:
            backward(cotangents(result, self._program.seed))
        return result


@dataclass(frozen=True)
class TorchCall:
    """The arguments of one call, and the values of the input tensors before it."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: dict[str, Any]
    before: Arrays


class TorchCalls:
    """Makes the arguments of a program's calls from arrays, and collects what a call returned and changed."""

    def __init__(self, program: OpenedProgram, device: str = "cpu") -> None:
        from driftline.programs.layout import InputLayout

        self._live = program.live
        self._layout = InputLayout.of(self._live)
        self._grad = program.grad
        self._device = device
        self._buffers = _saved(_named(self._live.function, "named_buffers"))
        self._weights = dict(_named(self._live.function, _PARAMETERS))
        self._saved_weights = _Weights(program, list(self._weights.values()))

    def prepare(self, arrays: Arrays) -> TorchCall:
        import torch

        from driftline.programs.torch_tensors import tensor_from_array

        tensors: dict[str, torch.Tensor] = {}
        names = {id(array): name for name, array in arrays.items()}
        placed = self._layout.tensors(arrays, tensor_from_array) if self._layout else {}
        before = self._layout.settled(arrays) if self._layout else arrays

        def make(array: Array) -> torch.Tensor:
            name = names[id(array)]
            tensor = (placed[name] if name in placed else tensor_from_array(array)).to(self._device)
            if self._grad and is_float(array.dtype.name):
                tensor.requires_grad_()
            tensors[name] = tensor
            return tensor

        with torch.no_grad():  # a model may keep state, or write into its weights; every run starts from the same ones
            for tensor, saved in self._buffers.values():
                tensor.copy_(saved)
        self._saved_weights.restore()
        for parameter in self._weights.values():
            parameter.grad = None
        args, kwargs = self._live.call_arguments(arrays, make)
        return TorchCall(args, kwargs, tensors, before)

    def outputs(self, call: TorchCall, result: Any) -> dict[str, Any]:
        """Return the results, the gradients, and the inputs and buffers that the call changed."""
        import torch

        if self._device != "cpu":
            torch.cuda.synchronize()
        gradients: dict[str, Any] = {}
        if self._grad:
            leaves = {**call.tensors, **self._weights}
            gradients = {f"grad:{name}": leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
        changed = {f"mutated:{n}": t for n, t in call.tensors.items() if _differs(to_array(t), call.before[n])}
        changed |= {f"mutated:{n}": b for n, (b, old) in self._buffers.items() if _differs(to_array(b), to_array(old))}
        return {**flatten_tensors(result), **gradients, **changed}


class _Weights:
    """Restores a module's parameters before each run. Hardly any program writes into them, so big parameters are not
    copied: a checksum is kept, and they are loaded again if it changes. (torch's change counter misses changes through
    `.data`.)"""

    def __init__(self, program: OpenedProgram, parameters: list[Any]) -> None:
        self._program = program
        self._parameters = parameters
        self._copies: list[Any] = []
        self._sums: list[int] = []
        if sum(parameter.nbytes for parameter in parameters) < BIG:
            self._copies = [parameter.detach().clone() for parameter in parameters]
        else:
            self._sums = [_checksum(parameter) for parameter in parameters]

    def restore(self) -> None:
        import torch

        originals = self._copies
        if self._sums:
            if self._sums == [_checksum(parameter) for parameter in self._parameters]:
                return
            originals = [original for _, original in _named(self._program.fresh().function, _PARAMETERS)]
        with torch.no_grad():
            for parameter, original in zip(self._parameters, originals, strict=True):
                parameter.copy_(original)


def _checksum(parameter: Any) -> int:
    """Return the sum of a parameter's bits as 64-bit numbers. It is fast and makes no copy."""
    if parameter.device.type != "cpu" or not parameter.is_contiguous():
        parameter = parameter.detach().cpu().contiguous()
    bits = parameter.detach().reshape(-1).view(_uint8()).numpy()
    whole = len(bits) // 8 * 8
    aligned = bits[:whole].view(np.int64)
    return int(np.add.reduce(aligned)) + int(np.add.reduce(bits[whole:], dtype=np.int64))


def _uint8() -> Any:
    import torch

    return torch.uint8


def _saved(named: list[tuple[str, Any]]) -> dict[str, tuple[Any, Any]]:
    return {name: (tensor, tensor.detach().clone()) for name, tensor in named}


def _differs(after: Array, before: Array) -> bool:
    """True if values differ. A zero that changed its sign and a NaN that changed its bits count as equal."""
    if after.shape != before.shape or after.dtype != before.dtype:
        return True
    return bool(((after != before) & ~((after != after) & (before != before))).any())


def flatten_tensors(result: Any) -> dict[str, Any]:
    """Return every tensor and number of a possibly nested result, by name."""
    numbers = (bool, int, float, complex)
    return {n: v for n, v in flatten(result, "output").items() if is_tensor(v) or isinstance(v, numbers)}


def as_arrays(values: dict[str, Any]) -> Arrays:
    """Convert tensors to arrays; Python numbers become 0-d arrays."""
    return {name: to_array(v) if is_tensor(v) else np.asarray(v) for name, v in values.items()}


def flatten_outputs(result: Any) -> Arrays:
    return as_arrays(flatten_tensors(result))


def cotangents(result: Any, seed: int) -> list[tuple[Any, Any]]:
    """Return the differentiable outputs, each with fixed random weights that are the same for every target."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    leaves = [
        leaf
        for leaf in flatten(result, "output").values()
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.is_floating_point()
    ]
    generator = torch.Generator().manual_seed(seed)
    with _disable_current_modes():  # whatever records the program must not take these draws for its own
        drawn = [
            torch.empty(leaf.shape, dtype=torch.float64).uniform_(0.5, 1.5, generator=generator) for leaf in leaves
        ]
        return [(leaf, values.to(leaf.device, leaf.dtype)) for values, leaf in zip(drawn, leaves, strict=True)]


def backward(weighted: Sequence[tuple[Any, Any]]) -> None:
    """Backpropagate the sum of all outputs by their weights."""
    import torch

    if weighted:
        torch.autograd.backward(*zip(*weighted, strict=True))


def _named(function: Any, method: str) -> list[tuple[str, Any]]:
    """Return the named parameters or buffers of a module; empty for other callables."""
    return list(getattr(function, method)()) if hasattr(function, method) else []
