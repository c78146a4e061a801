"""Read everything that is reachable from named roots, as the facts by which events are compared. Runs in a worker.

Paths are written as the user would write them: `output[0]`, `self.history`, `input x`, `global total`.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from driftline.scenarios.recording import Fact
from driftline.scenarios.tensors_seen import Contents, overlapping, reading, see_array, see_tensor

MOST_FACTS = 3000  # most facts of one event
DEEPEST = 12
LONGEST = 200  # characters of a text

_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(inspect.__file__).parent), "<frozen")
_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_WRITTEN = (bool, int, bytes, complex, type(None), type(...))
# Attributes that torch itself sets on objects of the user.
_HIDDEN = re.compile(
    r"_is_torch_compile|_dynamo|_torchdynamo|_compiled_call_impl|_hooks|_backward_pre|_state_dict|_load_state|_driftline|^__"
)
_OF_MODULES = ("_parameters", "_buffers", "_modules")
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_SKIPPED = (property, types.GetSetDescriptorType, types.MemberDescriptorType)
_WALKED_OF_TORCH = ("torch.nn", "torch.optim", "torch.return_types")

Part = tuple[str, Any]


class StateWalk:
    """The facts about everything reachable from the roots; `tensors` are the tensors found, by path."""

    def __init__(
        self,
        roots: Mapping[str, Any],
        contents: Contents,
        ignored: frozenset[int] = frozenset(),
        *,
        sharing: bool = True,
    ) -> None:
        """`ignored`: ids of objects that are skipped, such as backends of the script. Without `sharing`, a tensor that
        is found twice is read twice, and overlaps in memory are not searched for."""
        self._sharing = sharing
        self.facts: dict[str, Fact] = {}
        self.tensors: list[tuple[str, torch.Tensor]] = []
        self._contents = contents
        self._seen: dict[int, str] = dict.fromkeys(ignored, "")
        self._alive: list[Any] = []  # keeps objects alive, so that ids stay unique
        with reading():
            for path, value in roots.items():
                self._read(path, value, 0)
            self.shared = overlapping(self.tensors) if sharing else ()

    def _read(self, path: str, value: Any, depth: int) -> None:
        of = type(value)
        if of is str:
            self.facts[path] = Fact(repr(_ADDRESS.sub("0x?", value[:LONGEST])))
        elif of is float:
            self.facts[path] = Fact("float", number=repr(value))
        elif of in _WRITTEN or isinstance(value, _NAMED):
            self.facts[path] = Fact(repr(value)[:LONGEST])
        elif id(value) in self._seen and not self._is_read_again(value):
            if other := self._seen[id(value)]:
                self.facts[path] = Fact(f"is {other}")
        elif depth < DEEPEST and len(self.facts) < MOST_FACTS:
            self._seen[id(value)] = path
            self._alive.append(value)
            self._read_object(path, value, depth)

    def _is_read_again(self, value: Any) -> bool:
        return isinstance(value, (tuple, frozenset)) or (not self._sharing and isinstance(value, torch.Tensor))

    def _read_object(self, path: str, value: Any, depth: int) -> None:
        if isinstance(value, torch.Tensor):
            self._read_tensor(path, value, depth)
            return
        if isinstance(value, np.ndarray):
            self.facts[path] = Fact(tensor=see_array(value, self._contents))
            return
        if isinstance(value, torch._dynamo.eval_frame.OptimizedModule):
            self._read(path, value._orig_mod, depth)
            return
        fact, parts = describe(value)
        self.facts[path] = fact
        for name, part in parts:
            full = name.lstrip() if name.startswith((" global ", " class ")) else path + name
            if full not in self.facts:
                self._read(full, part, depth + 1)

    def _read_tensor(self, path: str, tensor: torch.Tensor, depth: int) -> None:
        self.tensors.append((path, tensor))
        seen = see_tensor(tensor, self._contents)
        self.facts[path] = Fact(tensor=seen)
        if seen.requires_grad:
            self._read_gradient(path, tensor, depth)
        if tensor.__dict__:
            for name, part in _visible(tensor.__dict__):
                self._read(f"{path}.{name}", part, depth + 1)

    def _read_gradient(self, path: str, tensor: torch.Tensor, depth: int) -> None:
        try:
            gradient = tensor.grad if tensor.is_leaf or tensor.retains_grad else None
        except Exception:  # fails for a view that was written in place
            return
        if gradient is not None:
            self._read(f"{path}.grad", gradient, depth + 1)


def describe(value: Any) -> tuple[Fact, Iterable[Part]]:
    """Return the fact about one object that is no tensor, and its named parts."""
    text = type(value).__qualname__
    if isinstance(value, types.FunctionType):
        return _function(value)
    if isinstance(value, (types.MethodType, functools.partial)):
        names = ("__self__", "__func__", "func", "args", "keywords")
        return Fact(text), [(f".{name}", getattr(value, name)) for name in names if hasattr(value, name)]
    if isinstance(value, type):
        return Fact(f"class {value.__qualname__}"), _class_parts(value)
    if isinstance(value, types.GeneratorType):
        return Fact(f"generator, {inspect.getgeneratorstate(value)}"), ()
    if isinstance(value, torch.Size):
        return Fact(f"torch.Size({list(value)})"), ()
    if isinstance(value, (np.generic, np.dtype)):
        return Fact(f"{text} {value!r}"[:LONGEST]), ()
    if isinstance(value, types.ModuleType) or _is_of_a_library(value):
        return Fact(text), ()
    return _container(value) or _object(value)


def _container(value: Any) -> tuple[Fact, Iterable[Part]] | None:
    """Return the size and the elements of a container, and its attributes, or `None` for other objects."""
    text = type(value).__qualname__
    if isinstance(value, dict):  # the order of the keys is part of the fact
        keys = [_key(key, place) for place, key in enumerate(list(value))]
        inside = [(f"[{key}]", part) for key, part in zip(keys, list(value.values()), strict=True)]
        return Fact(f"{text} with keys {', '.join(keys)}"[:LONGEST], size=len(keys)), [*inside, *_attributes(value)]
    if isinstance(value, (set, frozenset)):
        # not an overridden __iter__
        plain = frozenset.__iter__(value) if isinstance(value, frozenset) else set.__iter__(value)
        items = sorted(repr(item) if type(item) in (*_WRITTEN, str, float) else type(item).__name__ for item in plain)
        return Fact(f"{text} of {', '.join(items)}"[:LONGEST], size=len(value)), _attributes(value)
    if isinstance(value, (list, tuple, deque)):
        inside = [(f"[{place}]", part) for place, part in enumerate(list(value))]
        return Fact(text, size=len(value)), [*inside, *_attributes(value)]
    return None


def _object(value: Any) -> tuple[Fact, Iterable[Part]]:
    text = type(value).__qualname__
    if text.endswith("iterator") and hasattr(value, "__length_hint__"):
        return Fact(text, size=value.__length_hint__()), ()
    return Fact(text), [*_attributes(value), *_slots(value), *_own_class(type(value))]


def _key(key: Any, place: int) -> str:
    return repr(key) if type(key) in (*_WRITTEN, str, float) else f"<{type(key).__qualname__} {place}>"


def _is_of_a_library(value: Any) -> bool:
    """True for objects of torch and Python whose contents are skipped, because they keep caches of their own."""
    home = type(value).__module__ or ""
    if home.partition(".")[0] == "torch":
        return not home.startswith(_WALKED_OF_TORCH)
    return home.partition(".")[0] in ("_thread", "threading", "logging", "_io", "re", "weakref", "typing", "contextlib")


def _visible(names: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(str(name), part) for name, part in list(names.items()) if not _is_hidden(str(name))]


@functools.lru_cache(maxsize=4096)
def _is_hidden(name: str) -> bool:
    return bool(_HIDDEN.search(name))


def _attributes(value: Any) -> list[Part]:
    own = getattr(value, "__dict__", None)
    if not own:
        return []
    if not isinstance(value, torch.nn.Module):
        return [(f".{name}", part) for name, part in _visible(own)]
    inner = [item for kind in _OF_MODULES for item in list(own.get(kind, {}).items())]
    rest = [(name, part) for name, part in _visible(own) if name not in _OF_MODULES]
    return [(f".{name}", part) for name, part in (*inner, *rest)]


def _slots(value: Any) -> list[Part]:
    names = [
        name
        for of in type(value).__mro__
        if of.__module__ == "__main__"
        for name in of.__dict__.get("__slots__", ())
        if hasattr(value, name)
    ]
    return [(f".{name}", getattr(value, name)) for name in names]


def _own_class(of: type) -> list[Part]:
    return [(f" class {of.__qualname__}", of)] if of.__module__ == "__main__" else []


def _class_parts(of: type) -> list[Part]:
    if of.__module__ != "__main__":
        return []
    return [
        (f".{name}", getattr(part, "__func__", part))
        for name, part in _visible(vars(of))
        if not isinstance(part, _SKIPPED) and not name.startswith("_abc_")
    ]


def _function(function: Any) -> tuple[Fact, Iterable[Part]]:
    """Return a fact with the name of a function, and its parts: defaults, attributes, closure, and the globals it
    names."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    if not isinstance(function, types.FunctionType):
        return Fact(type(function).__qualname__), [(".__wrapped__", function)]
    fact = Fact(f"function {function.__qualname__}")
    if is_of_library(function):
        return fact, ()
    return fact, [*_own_parts(function), *outer_parts(function)]


def is_of_library(function: types.FunctionType) -> bool:
    """True for functions of torch and of Python's standard library, whose globals do not belong to the script."""
    return function.__code__.co_filename.startswith(_LIBRARIES)


def _own_parts(function: types.FunctionType) -> list[Part]:
    parts: list[Part] = [(f".{name}", part) for name, part in _visible(vars(function))]
    if function.__defaults__:
        parts.append((".__defaults__", function.__defaults__))
    if function.__kwdefaults__:
        parts.append((".__kwdefaults__", function.__kwdefaults__))
    return parts


def outer_parts(function: types.FunctionType) -> list[Part]:
    """Return the variables outside of a function that its code names: closure variables and globals."""
    parts: list[Part] = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            parts.append((f" closure {name}", cell.cell_contents))
        except ValueError:
            parts.append((f" closure {name}", "<empty>"))
    outside = function.__globals__
    parts += [(f" global {name}", outside[name]) for name in names_in(function.__code__) if name in outside]
    return parts


@functools.cache
def names_in(code: types.CodeType) -> tuple[str, ...]:
    """Return the global names that the code, and the code of functions inside it, reads or writes."""
    inner = [name for one in code.co_consts if isinstance(one, types.CodeType) for name in names_in(one)]
    return tuple(sorted({*code.co_names, *inner}))
