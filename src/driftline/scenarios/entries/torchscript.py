"""TorchScript: `torch.jit.script`, `trace`, `freeze`, `save` and `load`.

Compared, because TorchScript promises them: the numbers, types and containers of outputs, tensors among the inputs that
a call changes, parameters, buffers and gradients; for scripted code also that a call raises where eager raises, and
attributes of the module. Not compared: memory that tensors share, the class of an exception, and changes of lists and
dicts among the inputs. A trace is compared if tracing gave no warning, for inputs of the dtypes and ranks of the
example inputs.
"""

from __future__ import annotations

import functools
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.jit

from driftline.scenarios.entries.call import MadeCall, MadeObject
from driftline.scenarios.entries.files import Files
from driftline.scenarios.entries.making import Making, called_by_library, put_in_place
from driftline.scenarios.entries.twin import Twin, copied, detached, signature, state_of, twin_of
from driftline.scenarios.recorder import CallRecorder

_PLAIN = (bool, int, float, str, list, dict)


@dataclass(frozen=True)
class MadeScript(MadeObject):
    """A scripted or traced callable. `frozen` is true for a frozen one, which is for inference."""

    traced: bool = False
    frozen: bool = False

    @property
    def name(self) -> str:
        """A name for the callable, such as `f (traced)`."""
        return f"{self.twin.name} ({'traced' if self.traced else 'scripted'})"


class TorchScriptCall(MadeCall):
    """A call of a scripted or traced callable."""

    def __init__(self, of: Any, made: MadeScript, call: Callable[..., Any], args: Any, kwargs: Any) -> None:
        super().__init__(made, functools.partial(call, of), args, kwargs)
        self.name, self._of, self._made = made.name, of, made
        self.errors, self.folded = not made.traced, made.frozen

    @property
    def _module(self) -> torch.nn.Module | None:
        return self._of if isinstance(self._of, torch.nn.Module) else None

    def plain(self) -> Any:
        twin, module = self.made.twin, self._module
        if self._made.frozen:
            with torch.no_grad():
                return detached(twin.call(module, self.args, self.kwargs))
        if module is None or self._made.traced:
            return twin.call(module, self.args, self.kwargs)
        _copy_attributes(module, twin.kept)
        try:
            return twin.call(module, self.args, self.kwargs)
        finally:
            _copy_attributes(twin.kept, module)

    def seen(self, output: Any) -> Any:
        return detached(output) if self._made.traced else output

    def roots_of_error(self) -> dict[str, Any]:
        if self._module is None:
            return super().roots_of_error()
        state = {f"self.{name}": tensor for name, tensor in state_of(self._module).items()}
        return {**super().roots_of_error(), **state}


def _copy_attributes(source: torch.nn.Module, target: torch.nn.Module) -> None:
    """Copy the plain attributes of a scripted module and of its parts, such as counters and lists."""
    parts = dict(target.named_modules(remove_duplicate=False))
    for name, part in source.named_modules(remove_duplicate=False):
        other = parts.get(name)
        scripted: Any = part if isinstance(part, torch.jit.ScriptModule) else other
        if other is None or not hasattr(scripted, "_concrete_type"):
            continue
        for attribute in scripted._concrete_type.get_attributes():
            value = getattr(part, attribute, None)
            if isinstance(value, _PLAIN) and value != getattr(other, attribute, None):
                setattr(other, attribute, value)


@contextmanager
def installed(recorder: CallRecorder) -> Iterator[None]:
    """A context in which the recorder records scripted and traced callables and their calls."""
    calls = _JitFunctions(recorder)
    with ExitStack() as stack:
        functions = {name: getattr(calls, name) for name in ("script", "trace", "freeze", "save", "load")}
        stack.enter_context(put_in_place(torch.jit, **functions))
        for of in (torch.jit.ScriptFunction, torch.jit.ScriptModule):
            recorder.watch_calls(of, calls.calling(of.__call__))
        yield


class _JitFunctions:
    """The functions that replace those of `torch.jit`."""

    def __init__(self, recorder: CallRecorder) -> None:
        self._recorder = recorder
        self._script, self._trace, self._freeze = torch.jit.script, torch.jit.trace, torch.jit.freeze
        self._save, self._load = torch.jit.save, torch.jit.load
        self._made: weakref.WeakKeyDictionary[Any, MadeScript] = weakref.WeakKeyDictionary()
        self._files: Files[MadeScript] = Files()

    def script(self, obj: Any, optimize: Any = None, _frames_up: int = 0, *args: Any, **options: Any) -> Any:
        """Replaces `torch.jit.script`."""
        twin = None
        if isinstance(obj, (torch.nn.Module, types.FunctionType)) and not isinstance(obj, torch.jit.ScriptModule):
            twin = None if called_by_library() or self._recorder.inside else twin_of(obj, keeps_python=True)
        if twin is None:
            return self._script(obj, optimize, _frames_up + 1, *args, **options)
        build = functools.partial(self._script, obj, optimize, _frames_up, *args, **options)
        made = self._recorder.make(Making("torch.jit.script", build, lambda: None, self._recorder.script))
        if isinstance(made, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
            self._made[made] = MadeScript(twin, None)
        return made

    def trace(self, func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
        """Replaces `torch.jit.trace`."""
        build = functools.partial(self._trace, func, example_inputs, *args, **options)
        ours = isinstance(func, (torch.nn.Module, types.FunctionType)) and not called_by_library()
        twin = twin_of(func) if ours and not self._recorder.inside else None
        if twin is None or isinstance(func, torch.jit.ScriptModule):
            return build()
        given = options.get("example_kwarg_inputs") or {}
        inputs = () if example_inputs is None else example_inputs
        inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        example = signature(twin, tuple(inputs), given)

        def rehearse() -> None:
            positional, named = copied((tuple(inputs), given))
            twin.again().call(None, positional, named)

        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            made = self._recorder.make(Making("torch.jit.trace", build, rehearse, self._recorder.script))
        if not any(issubclass(one.category, torch.jit.TracerWarning) for one in told):
            self._made[made] = MadeScript(twin, example, traced=True)
        return made

    def freeze(self, mod: Any, *args: Any, **options: Any) -> Any:
        """Replaces `torch.jit.freeze`. A frozen module contains its parameters as constants."""
        frozen = self._freeze(mod, *args, **options)
        if (made := self._made.get(mod)) and not called_by_library():
            self._made[frozen] = replace(made, twin=_with_state(made.twin, mod), frozen=True)
        return frozen

    def save(self, m: Any, f: Any, *args: Any, **options: Any) -> None:
        """Replaces `torch.jit.save`."""
        self._save(m, f, *args, **options)
        if made := self._made.get(m):
            self._files.remember(f, replace(made, twin=_with_state(made.twin, m)))

    def load(self, f: Any, *args: Any, **options: Any) -> Any:
        """Replaces `torch.jit.load`."""
        made = self._files.known(f)
        loaded = self._load(f, *args, **options)
        if made:
            self._made[loaded] = replace(made, twin=made.twin.again())
        return loaded

    def calling(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a replacement for the call of a scripted callable."""

        def call(of: Any, *args: Any, **kwargs: Any) -> Any:
            made = self._made.get(of)
            if made is None:
                return real(of, *args, **kwargs)
            return self._recorder.call_made(TorchScriptCall(of, made, real, args, kwargs))

        return call


def _with_state(twin: Twin, real: Any) -> Twin:
    """Return a separate twin with the current parameters and buffers of the module `real`."""
    own = twin.again()
    if isinstance(real, torch.nn.Module):
        state = state_of(own.kept)
        with torch.no_grad():
            for name, tensor in state_of(real).items():
                if name in state:
                    state[name].copy_(tensor)
        own.kept.train(real.training)
    return own
