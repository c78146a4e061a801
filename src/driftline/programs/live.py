"""A program in a worker: a callable and its example arguments.

Models take nested arguments; everything outside a worker sees flat, named arrays. `LiveProgram` converts between the
two. Leaves that are not tensors (a flag, a number) stay what they are: part of the program.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftline.core.structure import flatten, rebuild
from driftline.core.tensors import Array, Arrays


@dataclass(frozen=True)
class LiveProgram:
    """A callable of some framework with its example arguments by name."""

    framework: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    positional: bool
    keywords: frozenset[str] = frozenset()  # arguments that are given by name although others are positional

    @staticmethod
    def bind(framework: str, function: Callable[..., Any], inputs: Any) -> LiveProgram:
        """Return the program with named inputs: keys of a dict, or names of the function's parameters."""
        if isinstance(inputs, Mapping):
            return LiveProgram(framework, function, dict(inputs), positional=False)
        if not isinstance(inputs, (tuple, list)):
            inputs = (inputs,)
        names = _parameter_names(function, len(inputs))
        return LiveProgram(framework, function, dict(zip(names, inputs, strict=True)), positional=True)

    def example_arrays(self) -> Arrays:
        """The tensor leaves of the example arguments, flat and named."""
        return {name: to_array(leaf) for name, leaf in flatten(self.arguments, "input").items() if is_tensor(leaf)}

    def call_arguments(self, arrays: Mapping[str, Array], make: Callable[[Array], Any]) -> tuple[Any, dict[str, Any]]:
        """Return positional and keyword arguments, with each tensor leaf taken from `arrays`."""

        def leaf(name: str, value: Any) -> Any:
            return make(arrays[name]) if is_tensor(value) else value

        built = rebuild(self.arguments, leaf)
        if not self.positional:
            return (), built
        args = tuple(value for name, value in built.items() if name not in self.keywords)
        return args, {name: value for name, value in built.items() if name in self.keywords}

    @property
    def is_flat(self) -> bool:
        """True if every argument is a tensor."""
        return all(is_tensor(value) for value in self.arguments.values())

    @property
    def parameters(self) -> tuple[int, int]:
        """Return the fewest and the most positional arguments that the function accepts."""
        given = _by_place(self.function)
        endless = not given or any(one.kind is one.VAR_POSITIONAL for one in given)  # or not known
        fewest = sum(one.default is one.empty and one.kind is not one.VAR_POSITIONAL for one in given)
        return fewest, sys.maxsize if endless else len(given)


def _by_place(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that can be given by position; empty if the signature is unknown."""
    target = getattr(function, "forward", None) or getattr(function, "call", None) or function
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one for one in parameters if one.kind not in (one.KEYWORD_ONLY, one.VAR_KEYWORD)]


def _parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    names = [one.name for one in _by_place(function) if one.kind is not one.VAR_POSITIONAL]
    while len(names) < count:
        names.append(f"arg{len(names)}")
    return names[:count]


def is_tensor(value: Any) -> bool:
    """True for arrays of numpy, torch, TensorFlow and JAX; Python numbers are not tensors."""
    if isinstance(value, np.ndarray):
        return True
    return hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, np.generic)


def to_array(value: Any) -> Array:
    """Convert a tensor of any framework to a numpy array with the same dtype and values."""
    if isinstance(value, np.ndarray):
        return value
    if type(value).__module__.startswith("torch") or hasattr(value, "requires_grad"):
        from driftline.programs.torch_tensors import array_from_tensor

        return array_from_tensor(value)
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)
