"""Shared by the backends that run torch code: arrays in, the user's callable, arrays out.

Gradients and changed inputs are results like any other: they appear as outputs called `grad:<name>` and
`mutated:<name>`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from driftline.backends.base import Backend, Compiled
from driftline.core.structure import flatten
from driftline.core.tensors import Array, Arrays, is_float
from driftline.programs.live import is_tensor, to_array
from driftline.programs.opened import OpenedProgram


class TorchBackend(Backend):
    """A backend that is given a torch callable and calls it."""

    accepts = ("source:torch", "torch")
    module = "torch"
    distribution = "torch"
    install = "pip install torch==2.13.0"
    family = "eager"
    gradients = True
    mutates = True

    def find_devices(self) -> tuple[str, ...]:
        import torch

        return ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)


def torch_runner(program: OpenedProgram, function: Callable[..., Any], device: str = "cpu") -> Compiled:
    """Wrap a callable on tensors as a callable on arrays, with gradients when the program asks for them."""
    import torch

    from driftline.programs.torch_tensors import array_from_tensor, tensor_from_array

    live = program.live
    parameters = dict(_named(live.function, "named_parameters")) if program.grad else {}
    buffers = {name: (buffer, buffer.clone()) for name, buffer in _named(live.function, "named_buffers")}

    def run(arrays: Arrays) -> Arrays:
        tensors: dict[int, tuple[str, torch.Tensor]] = {}
        names = {id(array): name for name, array in arrays.items()}

        def make(array: Array) -> torch.Tensor:
            tensor = tensor_from_array(array).to(device)
            if program.grad and is_float(array.dtype.name):
                tensor.requires_grad_()
            tensors[id(array)] = (names[id(array)], tensor)
            return tensor

        with torch.no_grad():  # a model may keep state; every run starts from the same one
            for buffer, saved in buffers.values():
                buffer.copy_(saved)
        args, kwargs = live.call_arguments(arrays, make)
        if not program.grad:
            with torch.no_grad():
                result = function(*args, **kwargs)
            outputs = flatten_outputs(result)
            if device != "cpu":
                torch.cuda.synchronize()
            return {**outputs, **_mutated(arrays, tensors), **_mutated_buffers(buffers)}
        for parameter in parameters.values():
            parameter.grad = None
        result = function(*args, **kwargs)
        backward(result, program.seed)
        outputs = flatten_outputs(result)
        for name, tensor in (*tensors.values(), *parameters.items()):
            if tensor.grad is not None:
                outputs[f"grad:{name}"] = array_from_tensor(tensor.grad)
        return outputs

    return run


def flatten_outputs(result: Any) -> Arrays:
    """Every tensor of a result, nested ones included; Python numbers count as 0-d arrays."""
    import numpy as np

    flat = flatten(result, "output")
    return {
        name: to_array(leaf) if is_tensor(leaf) else np.asarray(leaf)
        for name, leaf in flat.items()
        if is_tensor(leaf) or isinstance(leaf, (bool, int, float, complex))
    }


def backward(result: Any, seed: int) -> None:
    """Backpropagate a fixed random combination of all differentiable outputs, the same for every target."""
    import torch

    leaves = [
        leaf
        for leaf in flatten(result, "output").values()
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.is_floating_point()
    ]
    if not leaves:
        return
    generator = torch.Generator().manual_seed(seed)
    cotangents = [
        torch.empty(leaf.shape, dtype=torch.float64).uniform_(0.5, 1.5, generator=generator).to(leaf.dtype).to(leaf.device)
        for leaf in leaves
    ]
    torch.autograd.backward(leaves, cotangents)


def _named(function: Any, method: str) -> list[tuple[str, Any]]:
    """Parameters or buffers, if the callable is a module and has some."""
    return list(getattr(function, method)()) if hasattr(function, method) else []


def _mutated(arrays: Arrays, tensors: dict[int, tuple[str, Any]]) -> Arrays:
    """Inputs that the program changed in place."""
    from driftline.programs.torch_tensors import array_from_tensor

    changed: Arrays = {}
    for name, tensor in tensors.values():
        after = array_from_tensor(tensor)
        if after.shape != arrays[name].shape or after.tobytes() != arrays[name].tobytes():
            changed[f"mutated:{name}"] = after
    return changed


def _mutated_buffers(buffers: dict[str, tuple[Any, Any]]) -> Arrays:
    from driftline.programs.torch_tensors import array_from_tensor

    changed = {}
    for name, (buffer, saved) in buffers.items():
        after, before = array_from_tensor(buffer), array_from_tensor(saved)
        if after.tobytes() != before.tobytes():
            changed[f"mutated:{name}"] = after
    return changed
