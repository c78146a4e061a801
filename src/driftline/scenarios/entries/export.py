"""`torch.export`: programs, their modules, `save` and `load`, `unflatten`, `run_decompositions`.

Compared, because `torch.export` promises them: the numbers, types and containers of outputs, tensors among the inputs
that a call changes, parameters and buffers, gradients, and that a call raises where eager raises. Not compared: Python
attributes (a graph keeps their values), memory that tensors share, the class of an exception, and calls with inputs of
other types than the example inputs. Inputs of other sizes or Python values are refused if the module refuses them,
which eager runs find out by calling it.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.export

from driftline.scenarios.entries.call import MadeCall, MadeObject
from driftline.scenarios.entries.files import Files
from driftline.scenarios.entries.making import Making, called_by_library, put_in_place
from driftline.scenarios.entries.twin import copied, detached, signature, state_of, twin_of
from driftline.scenarios.recorder import CallRecorder


@dataclass(frozen=True)
class MadeProgram(MadeObject):
    """An exported program. `trains` is false for a decomposed one, which is for inference."""

    trains: bool = True


_PROGRAMS: weakref.WeakKeyDictionary[Any, MadeProgram] = weakref.WeakKeyDictionary()
_FILES: Files[MadeProgram] = Files()


def program_made(program: Any) -> MadeProgram | None:
    """Return the record of an exported program, or `None` if the recorder did not see it."""
    return _PROGRAMS.get(program) if isinstance(program, torch.export.ExportedProgram) else None


class ExportedCall(MadeCall):
    """A call of the module of an exported program."""

    def __init__(self, module: torch.nn.Module, made: MadeProgram, call: Callable[..., Any], args: Any, kwargs: Any):
        super().__init__(made, functools.partial(call, module), args, kwargs)
        self.name = f"{made.twin.name} (exported)"
        self._module, self._trains = module, made.trains

    def plain(self) -> Any:
        return self.made.twin.call(self._module, self.args, self.kwargs)

    def require_fit(self) -> None:
        state = state_of(self._module)
        kept = {name: tensor.detach().clone() for name, tensor in state.items()}
        drawn = torch.get_rng_state()
        args, kwargs = copied((self.args, self.kwargs))
        with torch.no_grad():
            try:
                self._call(*args, **kwargs)
            finally:
                torch.set_rng_state(drawn)
                for name, tensor in state.items():
                    if not torch.equal(tensor, kept[name]):
                        tensor.copy_(kept[name])

    def seen(self, output: Any) -> Any:
        return output if self._trains else detached(output)

    def roots_of_error(self) -> dict[str, Any]:
        state = {f"self.{name}": tensor for name, tensor in state_of(self._module).items()}
        return {**super().roots_of_error(), **state}


@contextmanager
def installed(recorder: CallRecorder) -> Iterator[None]:
    """A context in which the recorder records exported programs and the calls of their modules."""
    program = torch.export.ExportedProgram
    calls = _ExportFunctions(recorder)
    flat = torch.export.unflatten.__globals__["UnflattenedModule"]
    with ExitStack() as stack:
        functions = {name: getattr(calls, name) for name in ("export", "save", "load", "unflatten")}
        stack.enter_context(put_in_place(torch.export, **functions))
        stack.enter_context(put_in_place(program, module=calls.module(), run_decompositions=calls.decomposed()))
        recorder.watch_calls(flat, calls.calling(flat.__call__))
        yield


class _ExportFunctions:
    """The functions that replace those of `torch.export`."""

    def __init__(self, recorder: CallRecorder) -> None:
        self._recorder = recorder
        self._export, self._unflatten = torch.export.export, torch.export.unflatten
        self._save, self._load = torch.export.save, torch.export.load
        self._modules: weakref.WeakKeyDictionary[Any, MadeProgram] = weakref.WeakKeyDictionary()

    def export(self, mod: Any, args: Any = (), kwargs: Any = None, **options: Any) -> Any:
        """Replaces `torch.export.export`."""
        build = functools.partial(self._export, mod, args, kwargs, **options)
        twin = None if called_by_library() or self._recorder.inside else twin_of(mod)
        if twin is None:
            return build()
        example = signature(twin, args, kwargs or {})

        def rehearse() -> None:
            twin.again().call(None, *copied((args, kwargs or {})))

        made = self._recorder.make(Making("torch.export.export", build, rehearse, self._recorder.script))
        _PROGRAMS[made] = MadeProgram(twin, example)
        return made

    def save(self, ep: Any, f: Any, **options: Any) -> None:
        """Replaces `torch.export.save`."""
        self._save(ep, f, **options)
        if made := program_made(ep):
            _FILES.remember(f, made)

    def load(self, f: Any, **options: Any) -> Any:
        """Replaces `torch.export.load`."""
        made = _FILES.known(f)
        program = self._load(f, **options)
        if made:
            _PROGRAMS[program] = made
        return program

    def unflatten(self, module: Any, *args: Any, **options: Any) -> Any:
        """Replaces `torch.export.unflatten`."""
        flat = self._unflatten(module, *args, **options)
        if (made := program_made(module)) and not called_by_library():
            self._modules[flat] = made
        return flat

    def module(self) -> Callable[..., Any]:
        """Return a replacement for `ExportedProgram.module`, which patches the class of each module to record its
        calls."""
        real = torch.export.ExportedProgram.module

        @functools.wraps(real)
        def module(program: Any, *args: Any, **options: Any) -> Any:
            built = real(program, *args, **options)
            if (made := program_made(program)) and not called_by_library() and not self._recorder.inside:
                self._modules[built] = made
                self._recorder.watch_calls(type(built), self.calling(type(built).__call__))
            return built

        return module

    def decomposed(self) -> Callable[..., Any]:
        """Return a replacement for `ExportedProgram.run_decompositions`."""
        real = torch.export.ExportedProgram.run_decompositions

        @functools.wraps(real)
        def run_decompositions(program: Any, *args: Any, **options: Any) -> Any:
            done = real(program, *args, **options)
            if made := program_made(program):
                _PROGRAMS[done] = MadeProgram(made.twin, made.example, trains=False)
            return done

        return run_decompositions

    def calling(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a replacement for the call of a module."""

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            made = self._modules.get(module)
            if made is None:
                return real(module, *args, **kwargs)
            return self._recorder.call_made(ExportedCall(module, made, real, args, kwargs))

        return call
