"""Wraps every compiled callable of a script, and records each outermost call. Runs in a worker.

The recorder must not change what is compiled: Dynamo inlines the wrapped function where a compiled function calls
another one, compiled modules are recorded in the call of their class, and functions of torch that Dynamo knows by their
identity are restored during a compiled call.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import io
import random
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch._dynamo.eval_frame
import torch._inductor.config

from driftline.oracle.shadow.torch.higher_order import PlainOperators
from driftline.scenarios.happening import Happening
from driftline.scenarios.raised import raised
from driftline.scenarios.recording import (
    BACKWARD,
    CONTENTS,
    END,
    EVENTS,
    GRAD,
    Fact,
    Raised,
    ScriptEvent,
    write_event,
)
from driftline.scenarios.requests import OWN_BACKEND
from driftline.scenarios.tensors_seen import Contents
from driftline.scenarios.walk import StateWalk, is_of_library, names_in, outer_parts

if TYPE_CHECKING:
    from driftline.scenarios.entries.call import MadeCall

_FROM_SCRIPTS = ("torch.nn.modules.module", "torch.compiler")  # modules of torch that forward a script's call
# Backends that draw the same random numbers as eager; the setting would change which draws they keep.
_DRAWS_AS_EAGER = ("eager", "aot_eager", "aot_eager_decomp_partition")
MOST_LEAVES = 400  # tensors whose gradients are read after a backward pass


class CallRecorder:
    """Records the events of one run. `before` is called with the number of each event before it happens, `after` when
    it has been observed, and `written` when it is in the file."""

    def __init__(self, folder: Path, script: str, *, backend: str = "", most_events: int = 2000) -> None:
        self.backend = backend
        self.script = self._script = script
        self._most = most_events
        self.move(folder)
        self._thread = threading.get_ident()
        self._inside = False
        # True once an entry point was used that does not promise the state of Python objects
        self._only_tensors = False
        self._classes: list[tuple[Any, Any, Any]] = []  # class, recorded call, original call
        self._leaves: list[tuple[str, torch.Tensor]] = []
        self._leaf_ids: set[int] = set()
        self._ignored: list[Any] = []  # the script's own backends, and the objects that they use
        self._ignored_names: set[str] = set()
        self.before: Callable[[int], None] = lambda number: None
        self.after: Callable[[ScriptEvent, StateWalk], None] = lambda event, walk: None
        self.written: Callable[[ScriptEvent], None] = lambda event: None
        self.failed: Callable[[], None] = lambda: None  # called when the recorder itself raises
        self.eager = False  # True: call the original callable, not the compiled one
        self.number = 0  # number of the next event
        self.passed = 0  # events, including those beyond the limit
        self.seconds = 0.0
        self.other_threads = 0
        self.own_backends = False
        self.backends: dict[str, None] = {}  # names, in the order in which the script gives them
        self.operators = PlainOperators()  # operators like torch.cond that the script called
        self.fault = ""  # traceback of an error in the recorder

    def move(self, folder: Path) -> None:
        """Write to another folder from now on."""
        self._lines = open(folder / EVENTS, "w")  # noqa: SIM115 - open as long as the process
        self._contents = Contents(folder / CONTENTS)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """A context in which the script's calls of `torch.compile` and of autograd are passed to this recorder."""
        optimized = torch._dynamo.eval_frame.OptimizedModule
        compile_, call = torch.compile, optimized.__call__
        self._compile = compile_
        self._autograd = (torch.autograd.backward, torch.autograd.grad)
        self._watched = (self._watching(BACKWARD, self._autograd[0]), self._watching(GRAD, self._autograd[1]))
        torch.compile = self.compile
        optimized.__call__ = _recorded_module_call(self, call)  # type: ignore[method-assign]
        self._watch_autograd(True)
        try:
            yield
        finally:
            self._stand_aside(True)
            torch.compile = compile_
            optimized.__call__ = call  # type: ignore[method-assign]

    def compile(self, model: Any = None, **options: Any) -> Any:
        """Replaces `torch.compile`."""
        if model is None:
            return lambda function: self.compile(function, **options)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.startswith("torch.") and caller not in _FROM_SCRIPTS:
            return self._compile(model, **options)  # torch compiles operators like flex attention by itself
        self.ignore_backend(options.get("backend"))
        if self.backend:
            options = {name: value for name, value in options.items() if name not in ("mode", "options")}
            options["backend"] = self.backend
        if options.get("backend", "inductor") not in _DRAWS_AS_EAGER:
            torch._inductor.config.fallback_random = True  # otherwise random numbers could not be compared
        compiled = self._compile(model, **options)
        return self.recorded_as(compiled, model)

    def recorded_as(self, compiled: Any, model: Any) -> Any:
        """Return the callable that the script gets for `compiled`, which records its calls. For a compiled module,
        calls of its `forward` are recorded here; calls of the module are recorded by its class."""
        if isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule):
            compiled.forward = self._recorded(compiled.forward, model)
            return compiled
        return compiled if isinstance(model, (torch.nn.Module, type)) else self._recorded(compiled, model)

    def ignore_backend(self, backend: Any) -> None:
        """Note the backend of a compilation, and exclude the objects that the script's own backend uses from the
        comparison."""
        if backend is None or isinstance(backend, str):
            self.backends[backend or "inductor"] = None
            return
        self.backends[OWN_BACKEND] = None
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
        """Call a compiled callable; the outermost call is recorded as an event."""
        if self._inside or not self._is_recording():
            return compiled(*args, **kwargs)
        return self._event(_CompiledCall(_subject(model), compiled, args, kwargs))

    def call_made(self, call: MadeCall) -> Any:
        """Call an object that another entry point than `torch.compile` made; the outermost call is recorded as an
        event."""
        call.eager = self.eager
        if self._inside or not call.comparable or not self._is_recording():
            return call.real()
        return self._event(call)

    def make(self, making: Happening) -> Any:
        """Let an entry point make an object, recorded as an event."""
        making.eager = self.eager
        self._only_tensors = True
        if self._inside or not self._is_recording():
            return making.run()
        return self._event(making)

    def watch_calls(self, of: Any, watched: Callable[..., Any]) -> None:
        """Replace the call of a class by `watched`, except during a compiled call, because Dynamo traces calls."""
        self._classes.append((of, watched, of.__call__))
        of.__call__ = watched

    @property
    def inside(self) -> bool:
        """True while an event is carried out."""
        return self._inside

    def _is_recording(self) -> bool:
        if threading.get_ident() != self._thread:
            self.other_threads += 1
            return False
        self.passed += 1
        return self.number < self._most

    def _stand_aside(self, yes: bool) -> None:
        """Restore the functions that the recorder replaced (`yes`), or replace them again."""
        self._watch_autograd(not yes)
        for of, watched, own in self._classes:
            of.__call__ = own if yes else watched

    def _watch_autograd(self, on: bool) -> None:
        torch.autograd.backward, torch.autograd.grad = self._watched if on else self._autograd

    def _watching(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._inside or not self._is_recording():
                return function(*args, **kwargs)
            return self._event(_AutogradCall(kind, functools.partial(function, *args, **kwargs), self._leaves))

        watched._torchdynamo_inline = function  # type: ignore[attr-defined]
        return watched

    def _event(self, happening: Happening) -> Any:
        self.before(self.number)
        happening.eager = self.eager  # `before` may fork a child, which runs without the compiler
        self._inside = True
        self._stand_aside(True)
        output, error = None, None
        try:
            with contextlib.nullcontext() if happening.printing else contextlib.redirect_stdout(_nowhere()):
                output = happening.run()
            return output
        except BaseException as caught:
            error = caught
            raise
        finally:
            self._inside = False
            self._stand_aside(False)
            self._write(happening, output, error)

    def end(self, names: dict[str, Any], error: BaseException | None) -> None:
        """Record the end of the script, with its variables."""
        own = {} if self._only_tensors else {name: value for name, value in names.items() if not name.startswith("__")}
        roots = {
            f"global {name}": value
            for name, value in own.items()
            if name not in self._ignored_names and not isinstance(value, (types.ModuleType, types.FunctionType, type))
        }
        self.before(self.number)
        self._write(_End({**roots, **dict(self._leaves)}), None, error)

    def _write(self, happening: Happening, output: Any, error: BaseException | None) -> None:
        """Write an event. If the recorder itself fails, the recording ends, and the script gets no exception."""
        began = time.thread_time()
        try:
            self._observe(happening, output, error)
        except Exception:
            self.fault = self.fault or traceback.format_exc()
            self._most = 0
            traceback.print_exc()  # into the worker's log
            self.failed()
        self.seconds += time.thread_time() - began

    def _observe(self, happening: Happening, output: Any, error: BaseException | None) -> None:
        roots = happening.roots(output) if error is None else happening.roots_of_error()
        walk = StateWalk(roots, self._contents, frozenset(map(id, self._ignored)), sharing=happening.sharing)
        event = ScriptEvent(
            self.number,
            happening.kind,
            happening.name,
            {**happening.facts(), **walk.facts, **_surroundings()},
            walk.shared,
            self._raised(happening, error),
            happening.judged,
            happening.folded,
            self.operators.called,
        )
        self.after(event, walk)
        self._remember_leaves(walk)
        self._contents.flush()
        self._lines.write(write_event(event))
        self._lines.flush()
        self.written(event)
        self.number += 1

    def _raised(self, happening: Happening, error: BaseException | None) -> Raised | None:
        if error is None or happening.forgiven:
            return None
        found = raised(error, self._script)
        declined = found.declined or happening.declines(error)
        return replace(found, by_script=found.by_script and happening.own_errors, declined=declined)

    def _remember_leaves(self, walk: StateWalk) -> None:
        """Remember the leaf tensors whose gradients are read after a backward pass."""
        for path, tensor in walk.tensors:
            if len(self._leaves) >= MOST_LEAVES:
                return
            if id(tensor) not in self._leaf_ids and tensor.is_leaf and tensor.requires_grad:
                self._leaf_ids.add(id(tensor))
                self._leaves.append((path, tensor))


class _CompiledCall(Happening):
    """A call of a callable that `torch.compile` made."""

    def __init__(self, model: Any, compiled: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.name = _name_of(model)
        self._call = functools.partial(compiled, *args, **kwargs)
        self._roots = {**_named_inputs(model, args, kwargs), **_roots_of(model)}

    def run(self) -> Any:
        return self._call()

    def roots(self, output: Any) -> dict[str, Any]:
        return {"output": output, **self._roots}

    def roots_of_error(self) -> dict[str, Any]:
        return self._roots


class _AutogradCall(Happening):
    """A call of `backward` or `torch.autograd.grad`, with the tensors that may have gradients."""

    def __init__(self, kind: str, call: Callable[[], Any], leaves: list[tuple[str, torch.Tensor]]) -> None:
        self.kind = kind
        self._call = call
        self._leaves = dict(leaves)

    def run(self) -> Any:
        return self._call()

    def roots(self, output: Any) -> dict[str, Any]:
        return {"output": output, **self._leaves} if self.kind == GRAD else self._leaves

    def roots_of_error(self) -> dict[str, Any]:
        return self._leaves


class _End(Happening):
    """The end of the script, with its variables."""

    kind = END

    def __init__(self, variables: dict[str, Any]) -> None:
        self._variables = variables

    def run(self) -> None:
        """Do nothing: the script has already run."""

    def roots(self, output: Any) -> dict[str, Any]:
        return self._variables

    def roots_of_error(self) -> dict[str, Any]:
        return self._variables


def _nowhere() -> io.TextIOWrapper:
    """Return a stream that discards its text."""
    return io.TextIOWrapper(io.BytesIO())


def _recorded_module_call(recorder: CallRecorder, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for the call of compiled modules."""

    def recorded(module: Any, *args: Any, **kwargs: Any) -> Any:
        return recorder.call(functools.partial(call, module), module._orig_mod, args, kwargs)

    return recorded


def _subject(model: Any) -> Any:
    """Return the module if `model` is its call method, else the callable itself."""
    owner = getattr(model, "__self__", None)
    called = getattr(model, "__name__", "") in ("_call_impl", "_wrapped_call_impl")
    return owner if isinstance(owner, torch.nn.Module) and called else model


def _name_of(model: Any) -> str:
    """Return the name of the callable for the user."""
    name = getattr(model, "__qualname__", "") or type(model).__qualname__
    return name.rpartition("<locals>.")[2]


def _roots_of(model: Any) -> dict[str, Any]:
    """Return the objects to read besides inputs and output: the owner of a method, the closure, and globals."""
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
    """Return inputs by the names of the callable's parameters."""
    given = [f"input {place}" for place in range(len(args))]
    for place, name in enumerate(_parameters(_function_of(model))[: len(args)]):
        given[place] = f"input {name}"
    return {**dict(zip(given, args, strict=True)), **{f"input {name}": value for name, value in kwargs.items()}}


def _function_of(model: Any) -> Any:
    """Return the function that defines the parameters of a callable."""
    if isinstance(model, types.MethodType):
        return model.__func__
    if isinstance(model, torch.nn.Module):
        return type(model).forward
    return model if isinstance(model, types.FunctionType) else type(model).__call__


@functools.lru_cache(maxsize=256)
def _parameters(function: Any) -> tuple[str, ...]:
    """Return the names of positional parameters, without `self`."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return ()
    named = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return tuple(named[1:] if named[:1] == ["self"] else named)


def _surroundings() -> dict[str, Fact]:
    """Return facts about global state: random generators, modes, defaults."""
    modes = {
        "mode gradients": torch.is_grad_enabled(),
        "mode inference mode": torch.is_inference_mode_enabled(),
        "mode autocast": torch.is_autocast_enabled("cpu"),
        "mode deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "mode default dtype": torch.get_default_dtype(),
    }
    return {
        **{name: _mode(value) for name, value in modes.items()},
        "random state of torch": _state(torch.get_rng_state().numpy().tobytes()),
        "random state of random": _python_state(),
        "random state of numpy": _numpy_state(),
    }


@functools.lru_cache(maxsize=64)
def _mode(value: object) -> Fact:
    return Fact(repr(value))


@functools.lru_cache(maxsize=4)
def _state(state: bytes) -> Fact:
    return Fact(hashlib.blake2b(state, digest_size=6).hexdigest())


def _python_state() -> Fact:
    """Return a fact about Python's random generator. Hashes of numbers are equal in every process."""
    _, numbers, gauss = random.getstate()
    return Fact(f"{hash(numbers):x} {gauss}")


def _numpy_state() -> Fact:
    state: Any = np.random.get_state()
    return _state(state[1].tobytes() + repr(state[2:]).encode())
