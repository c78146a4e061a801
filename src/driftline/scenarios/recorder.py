"""Stands around every compiled callable of a script, and writes down each outermost call. In a worker.

The recorder must not change what is compiled: Dynamo inlines the wrapped function where a compiled function calls
another one, compiled modules are recorded in the call of their class, and functions of torch that Dynamo knows by their
identity are put back in place during a compiled call.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import random
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._dynamo.eval_frame

from driftline.oracle.shadow.torch.higher_order import PlainOperators
from driftline.scenarios.raised import raised
from driftline.scenarios.recording import (
    BACKWARD,
    CALL,
    CONTENTS,
    END,
    EVENTS,
    GRAD,
    Fact,
    ScriptEvent,
    write_event,
)
from driftline.scenarios.tensors_seen import Contents
from driftline.scenarios.walk import StateWalk, is_of_library, names_in, outer_parts

_FROM_SCRIPTS = ("torch.nn.modules.module", "torch.compiler")  # modules of torch that pass a script's call on
MOST_LEAVES = 400  # tensors whose gradients are read after a backward pass


class CallRecorder:
    """Writes the events of one run. `before` is called with the number of every event before it happens, `after` when
    it is observed, `written` when it is in the file."""

    def __init__(self, folder: Path, script: str, *, backend: str = "", most_events: int = 2000) -> None:
        self._backend = backend
        self._script = script
        self._most = most_events
        self.move(folder)
        self._thread = threading.get_ident()
        self._inside = False
        self._leaves: list[tuple[str, torch.Tensor]] = []
        self._leaf_ids: set[int] = set()
        self._ignored: list[Any] = []  # backends of the script, and the objects that they name
        self._ignored_names: set[str] = set()
        self.before: Callable[[int], None] = lambda number: None
        self.after: Callable[[ScriptEvent, StateWalk], None] = lambda event, walk: None
        self.written: Callable[[ScriptEvent], None] = lambda event: None
        self.failed: Callable[[], None] = lambda: None  # called when the recorder itself raises
        self.number = 0  # of the next event
        self.passed = 0  # events, with those that were too many
        self.seconds = 0.0
        self.other_threads = 0
        self.own_backends = False
        self.operators = PlainOperators()  # those that the script called
        self.fault = ""  # the traceback of a fault of ours

    def move(self, folder: Path) -> None:
        """Write to another folder from now on."""
        self._lines = open(folder / EVENTS, "w")  # noqa: SIM115 - open as long as the process
        self._contents = Contents(folder / CONTENTS)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Inside the block, the script's calls of `torch.compile` come here."""
        optimized = torch._dynamo.eval_frame.OptimizedModule
        compile_, call = torch.compile, optimized.__call__
        self._compile = compile_
        self._autograd = (torch.autograd.backward, torch.autograd.grad)
        torch.compile = self.compile
        optimized.__call__ = _recorded_module_call(self, call)  # type: ignore[method-assign]
        self._watch_autograd(True)
        try:
            yield
        finally:
            self._watch_autograd(False)
            torch.compile = compile_
            optimized.__call__ = call  # type: ignore[method-assign]

    def compile(self, model: Any = None, **options: Any) -> Any:
        """In place of `torch.compile`."""
        if model is None:
            return lambda function: self.compile(function, **options)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.startswith("torch.") and caller not in _FROM_SCRIPTS:
            return self._compile(model, **options)  # torch compiles operators like flex attention by itself
        self._ignore_backend(options.get("backend"))
        if self._backend:
            options = {name: value for name, value in options.items() if name not in ("mode", "options")}
            options["backend"] = self._backend
        compiled = self._compile(model, **options)
        if isinstance(model, (torch.nn.Module, type)):  # a module is recorded by its class
            return compiled
        return self._recorded(compiled, model)

    def _ignore_backend(self, backend: Any) -> None:
        """What the script's own backend writes down is the compiler's affair."""
        if backend is None or isinstance(backend, str):
            return
        self.own_backends = True
        self._ignored.append(backend)
        code = getattr(backend, "__code__", None)
        if code is not None:
            cells = [part for name, part in outer_parts(backend) if not isinstance(part, types.ModuleType)]
            self._ignored += [part for part in cells if not isinstance(part, (types.FunctionType, type))]
            self._ignored_names.update(names_in(code))

    def _recorded(self, compiled: Any, model: Any) -> Any:
        @functools.wraps(compiled)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            return self.call(compiled, model, args, kwargs)

        # An outer compiled function traces what torch.compile would have given it.
        marks: Any = recorded
        marks._torchdynamo_inline = getattr(compiled, "_torchdynamo_inline", model)
        marks._torchdynamo_orig_callable = model
        marks._torchdynamo_wrapper_id = id(recorded)
        return recorded

    def call(self, compiled: Any, model: Any, args: Any, kwargs: Any) -> Any:
        """Call a compiled callable, as an event where it is the outermost one."""
        if self._inside or not self._is_recording():
            return compiled(*args, **kwargs)
        model = _subject(model)
        roots = {**_named_inputs(model, args, kwargs), **_roots_of(model)}
        return self._event(CALL, _name_of(model), lambda: compiled(*args, **kwargs), roots)

    def _is_recording(self) -> bool:
        if threading.get_ident() != self._thread:
            self.other_threads += 1
            return False
        self.passed += 1
        return self.number < self._most

    def _watch_autograd(self, on: bool) -> None:
        backward, grad = self._autograd
        torch.autograd.backward = self._watched(BACKWARD, backward) if on else backward
        torch.autograd.grad = self._watched(GRAD, grad) if on else grad

    def _watched(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._inside or not self._is_recording():
                return function(*args, **kwargs)
            return self._event(kind, "", lambda: function(*args, **kwargs), dict(self._leaves))

        watched._torchdynamo_inline = function  # type: ignore[attr-defined]
        return watched

    def _event(self, kind: str, name: str, run: Callable[[], Any], roots: dict[str, Any]) -> Any:
        self.before(self.number)
        self._inside = True
        self._watch_autograd(False)
        output, error = None, None
        try:
            output = run()
            return output
        except BaseException as caught:
            error = caught
            raise
        finally:
            self._inside = False
            self._watch_autograd(True)
            seen = {"output": output, **roots} if error is None and kind != BACKWARD else roots
            self._write(kind, name, seen, error)

    def end(self, names: dict[str, Any], error: BaseException | None) -> None:
        """The script has ended: what its variables are."""
        own = {name: value for name, value in names.items() if not name.startswith("__")}
        roots = {
            f"global {name}": value
            for name, value in own.items()
            if name not in self._ignored_names and not isinstance(value, (types.ModuleType, types.FunctionType, type))
        }
        self.before(self.number)
        self._write(END, "", {**roots, **dict(self._leaves)}, error)

    def _write(self, kind: str, name: str, roots: dict[str, Any], error: BaseException | None) -> None:
        """Write an event. A fault of the recorder is no exception of the script: it ends the recording."""
        began = time.thread_time()
        try:
            self._observe(kind, name, roots, error)
        except Exception:
            self.fault = self.fault or traceback.format_exc()
            self._most = 0
            traceback.print_exc()  # into the worker's log
            self.failed()
        self.seconds += time.thread_time() - began

    def _observe(self, kind: str, name: str, roots: dict[str, Any], error: BaseException | None) -> None:
        walk = StateWalk(roots, self._contents, frozenset(map(id, self._ignored)))
        found = raised(error, self._script) if error is not None else None
        facts = {**walk.facts, **_surroundings()}
        event = ScriptEvent(self.number, kind, name, facts, walk.shared, found, self.operators.called)
        self.after(event, walk)
        self._remember_leaves(walk)
        self._contents.flush()
        self._lines.write(write_event(event))
        self._lines.flush()
        self.written(event)
        self.number += 1

    def _remember_leaves(self, walk: StateWalk) -> None:
        """Tensors whose gradients are read after a backward pass."""
        for path, tensor in walk.tensors:
            if len(self._leaves) >= MOST_LEAVES:
                return
            if id(tensor) not in self._leaf_ids and tensor.is_leaf and tensor.requires_grad:
                self._leaf_ids.add(id(tensor))
                self._leaves.append((path, tensor))


def _recorded_module_call(recorder: CallRecorder, call: Callable[..., Any]) -> Callable[..., Any]:
    """In place of the call of compiled modules."""

    def recorded(module: Any, *args: Any, **kwargs: Any) -> Any:
        return recorder.call(functools.partial(call, module), module._orig_mod, args, kwargs)

    return recorded


def _subject(model: Any) -> Any:
    """The module whose call a method is, or the callable itself."""
    owner = getattr(model, "__self__", None)
    called = getattr(model, "__name__", "") in ("_call_impl", "_wrapped_call_impl")
    return owner if isinstance(owner, torch.nn.Module) and called else model


def _name_of(model: Any) -> str:
    """The callable as the user calls it."""
    name = getattr(model, "__qualname__", "") or type(model).__qualname__
    return name.rpartition("<locals>.")[2]


def _roots_of(model: Any) -> dict[str, Any]:
    """Where the walk begins beside inputs and output: the object that a method belongs to, a closure, globals."""
    function = model
    while not isinstance(function, types.FunctionType) and hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    if isinstance(function, types.MethodType):
        return {"self": function.__self__, **_outside(function.__func__)}
    if isinstance(function, types.FunctionType):
        return _outside(function)
    of = type(function)
    forward = of.forward if isinstance(function, torch.nn.Module) else of.__dict__.get("__call__")
    return {"self": function, **_outside(forward)}


def _outside(function: Any) -> dict[str, Any]:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    if not isinstance(function, types.FunctionType) or is_of_library(function):
        return {}
    found = {name.lstrip(): value for name, value in outer_parts(function)}
    return found | {f"{function.__name__}.{name}": value for name, value in vars(function).items() if name[0] != "_"}


def _named_inputs(model: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Inputs by the names of the callable's parameters."""
    given = [f"input {place}" for place in range(len(args))]
    for place, name in enumerate(_parameters(_function_of(model))[: len(args)]):
        given[place] = f"input {name}"
    return {**dict(zip(given, args, strict=True)), **{f"input {name}": value for name, value in kwargs.items()}}


def _function_of(model: Any) -> Any:
    """The function with the parameters of a callable."""
    if isinstance(model, types.MethodType):
        return model.__func__
    if isinstance(model, torch.nn.Module):
        return type(model).forward
    return model if isinstance(model, types.FunctionType) else type(model).__call__


@functools.lru_cache(maxsize=256)
def _parameters(function: Any) -> tuple[str, ...]:
    """The names of positional parameters, without `self`."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return ()
    named = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return tuple(named[1:] if named[:1] == ["self"] else named)


def _surroundings() -> dict[str, Fact]:
    """The state around the script: random generators, modes, defaults."""
    modes = {
        "gradients": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "default dtype": torch.get_default_dtype(),
    }
    random_states = {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "random": repr(random.getstate()).encode(),
        "numpy": _numpy_state(),
    }
    return {
        **{f"mode {name}": Fact(repr(value)) for name, value in modes.items()},
        **{f"random state of {name}": Fact(_digest(state)) for name, state in random_states.items()},
    }


def _numpy_state() -> bytes:
    state: Any = np.random.get_state()
    return state[1].tobytes() + repr(state[2:]).encode()


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=6).hexdigest()
