"""The callable given to a compiler, copied at that time, and called in eager runs in place of the compiled object."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from driftline.core.errors import InternalError


class Twin:
    """A copy of a module, or a function. Changes that a call makes to Python attributes are lost after the call, as in
    an exported graph, unless `keeps_python`."""

    def __init__(self, original: Any, *, keeps_python: bool = False) -> None:
        """Copy `original`. Raises exceptions of any class if the module cannot be copied."""
        self.name = getattr(original, "__qualname__", "").rpartition("<locals>.")[2] or type(original).__qualname__
        self._keeps_python = keeps_python
        self.kept = copy.deepcopy(original) if isinstance(original, torch.nn.Module) else original

    @property
    def function(self) -> Any:
        """The function whose signature calls have: the module's `forward`, or the function itself."""
        return self.kept.forward if isinstance(self.kept, torch.nn.Module) else self.kept

    def again(self) -> Twin:
        """Return a twin with its own copy of the state."""
        return Twin(self.kept, keeps_python=self._keeps_python)

    def call(self, real: torch.nn.Module | None, args: Any, kwargs: Any, *, keeps_buffers: bool = True) -> Any:
        """Call the twin with the parameters and buffers of the module `real`, or its own. Buffers that the call assigns
        are written back; lists and dicts among the inputs are copied, as compilers do."""
        args, kwargs = pytree.tree_map(lambda leaf: leaf, (args, kwargs))
        if not isinstance(self.kept, torch.nn.Module):
            return self.kept(*args, **kwargs)
        state = state_of(self.kept if real is None else real)
        module = self.kept if self._keeps_python else _shallow(self.kept)
        if not keeps_buffers:
            state = {name: tensor.clone() if _is_buffer(tensor) else tensor for name, tensor in state.items()}
        places = dict(_places(module))
        for name in state.keys() & places.keys():
            places[name][state_key(name)] = state[name]
        output = module(*args, **kwargs)
        if keeps_buffers:
            _write_back(state, places)
        return output


def _is_buffer(tensor: torch.Tensor) -> bool:
    return not isinstance(tensor, torch.nn.Parameter)


def state_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return all parameters and buffers by their full names, including those with two names."""
    found: dict[str, torch.Tensor] = dict(module.named_parameters(remove_duplicate=False))
    return found | dict(module.named_buffers(remove_duplicate=False))


def state_key(name: str) -> str:
    """Return the last part of a full name."""
    return name.rpartition(".")[2]


def _places(module: torch.nn.Module) -> Iterator[tuple[str, dict[str, torch.Tensor | None]]]:
    """Iterate over the full names of parameters and buffers, with the dict that holds each."""
    for prefix, part in module.named_modules(remove_duplicate=False):
        for kept in (part._parameters, part._buffers):
            for name in kept:
                yield f"{prefix}.{name}" if prefix else name, kept  # type: ignore[misc]


def _shallow(module: torch.nn.Module) -> torch.nn.Module:
    """Return a copy of a module that shares all tensors with the original."""
    tensors = [*module.parameters(), *module.buffers()]
    for part in module.modules():
        tensors += [value for value in vars(part).values() if isinstance(value, torch.Tensor)]
    return copy.deepcopy(module, {id(tensor): tensor for tensor in tensors})


def _write_back(state: Mapping[str, torch.Tensor], places: Mapping[str, dict[str, torch.Tensor | None]]) -> None:
    """Copy the values of buffers that a call has replaced into the original buffers."""
    with torch.no_grad():
        for name in state.keys() & places.keys():
            new, old = places[name][state_key(name)], state[name]
            if new is not None and new is not old and new.shape == old.shape:
                old.copy_(new)


@dataclass(frozen=True)
class CallSignature:
    """The properties of inputs that a compiler specialises on. `kind`: names, dtypes, ranks and Python types, and the
    modes around the call. `exact`: sizes and Python values."""

    kind: tuple[object, ...]
    exact: tuple[object, ...]


def signature(twin: Twin, args: Any, kwargs: Any) -> CallSignature:
    """Return the signature of the inputs of one call."""
    leaves, spec = pytree.tree_flatten(_by_name(twin.function, args, kwargs))
    kinds = tuple((one.dtype, one.dim(), one.device.type) if _is_tensor(one) else type(one) for one in leaves)
    sizes = tuple((tuple(one.shape), one.is_contiguous()) if _is_tensor(one) else repr(one) for one in leaves)
    modes = (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.get_default_dtype())
    given = pytree.tree_structure((args, kwargs))
    return CallSignature((str(spec), kinds, modes), (str(given), sizes))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided


def _by_name(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """Return inputs by the names of the parameters, whether they were passed by position or by name."""
    try:
        return dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {**{str(place): one for place, one in enumerate(args)}, **kwargs}


def input_roots(twin: Twin, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the tensors among the inputs by name. A compiled graph promises to change no other inputs."""
    found = {}
    for name, value in _by_name(twin.function, args, kwargs).items():
        for path, leaf in pytree.tree_flatten_with_path(value)[0]:
            if isinstance(leaf, torch.Tensor):
                found[f"input {name}{pytree.keystr(path)}"] = leaf
    return found


def detached(output: Any) -> Any:
    """Return the output with detached tensors, which require no gradient."""
    return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, output)


def copied(values: Any) -> Any:
    """Return the values with detached copies of their tensors."""
    return pytree.tree_map_only(torch.Tensor, lambda one: one.detach().clone(), values)


def twin_of(original: Any, *, keeps_python: bool = False) -> Twin | None:
    """Return a twin, or `None` if `original` cannot be copied; its calls are then not compared."""
    try:
        return Twin(original, keeps_python=keeps_python)
    except InternalError:
        raise
    except Exception:
        return None
