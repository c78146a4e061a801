"""ONNX: `torch.onnx.export`, and sessions of ONNX Runtime that run the exported files.

Only the numbers, dtypes and sizes of the requested outputs are compared. A session promises nothing else: it copies
parameters and buffers, returns its own arrays, draws its own random numbers, and does not raise what eager raises. A
session of a file that another library wrote or changed is not compared.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.onnx
from torch.utils import _pytree as pytree

from driftline.scenarios.entries.call import MadeCall, MadeObject
from driftline.scenarios.entries.export import program_made
from driftline.scenarios.entries.files import Files
from driftline.scenarios.entries.making import Making, called_by_library, put_in_place
from driftline.scenarios.entries.twin import copied, detached, signature, twin_of
from driftline.scenarios.recorder import CallRecorder


@dataclass(frozen=True)
class MadeModel(MadeObject):
    """An exported model, with the inputs that it was exported for."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def inputs_of(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return the arguments of the module for the inputs of the model, or `None` if they do not correspond."""
        leaves, spec = pytree.tree_flatten((self.args, self.kwargs))
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        if len(places) != len(arrays) or not all(isinstance(one, np.ndarray) for one in arrays):
            return None
        try:
            for place, array in zip(places, arrays, strict=True):
                leaves[place] = torch.from_numpy(array.copy())
        except TypeError:  # a numpy dtype that torch does not have
            return None
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return args, kwargs

    def outputs(self, args: Any, kwargs: Any) -> list[torch.Tensor]:
        """Call the module and return its outputs, flattened as by the exporter."""
        with torch.no_grad():
            output = self.twin.call(None, copied(args), copied(kwargs), keeps_buffers=False)
        return [leaf for leaf in pytree.tree_leaves(detached(output)) if leaf is not None]


class ModelCall(MadeCall):
    """A call of an `ONNXProgram`."""

    errors = False
    draws = False
    folded = True

    def __init__(self, made: MadeModel, call: Callable[..., Any], args: Any, kwargs: Any) -> None:
        super().__init__(made, call, args, kwargs)
        self.name = f"{made.twin.name} (in ONNX)"
        self._made = made

    def require_fit(self) -> None:
        self.real()

    def declines(self, error: BaseException) -> bool:
        return super().declines(error) or _is_declined(error)

    def plain(self) -> Any:
        return tuple(self._made.outputs(self.args, self.kwargs))

    def roots(self, output: Any) -> dict[str, Any]:
        return {"output": output}

    def roots_of_error(self) -> dict[str, Any]:
        return {}


class SessionCall(ModelCall):
    """A call of `InferenceSession.run`."""

    def __init__(self, made: MadeModel, run: Callable[[], Any], names: _Names, inputs: tuple[Any, Any]) -> None:
        super().__init__(made, run, *inputs)
        self._names = names

    def real(self) -> Any:
        return self._call()

    def plain(self) -> Any:
        outputs = self._made.outputs(self.args, self.kwargs)
        if len(outputs) != len(self._names.all):
            raise ValueError("the outputs do not correspond")
        by_name = dict(zip(self._names.all, outputs, strict=True))
        return [by_name[name].numpy() for name in self._names.wanted]

    def roots(self, output: Any) -> dict[str, Any]:
        return {
            f"output {name}": torch.from_numpy(np.array(array))
            for name, array in zip(self._names.wanted, output, strict=True)
            if isinstance(array, (np.ndarray, np.generic)) and array.dtype.kind in "biuf"
        }


@dataclass(frozen=True)
class _Names:
    """The names of all outputs of a model, and of those that a call requests."""

    all: tuple[str, ...]
    wanted: tuple[str, ...]


@contextmanager
def installed(recorder: CallRecorder) -> Iterator[None]:
    """A context in which the recorder records exported models, sessions and their calls."""
    calls = _OnnxFunctions(recorder)
    with ExitStack() as stack:
        stack.enter_context(put_in_place(torch.onnx, export=calls.export))
        program = torch.onnx.ONNXProgram
        stack.enter_context(put_in_place(program, save=calls.saving(), __call__=calls.calling()))
        try:
            import onnxruntime
        except ImportError:
            yield
            return
        session = onnxruntime.InferenceSession
        stack.enter_context(put_in_place(session, __init__=calls.opening(session), run=calls.running(session)))
        yield


class _OnnxFunctions:
    """The functions that replace those of `torch.onnx` and ONNX Runtime."""

    def __init__(self, recorder: CallRecorder) -> None:
        self._recorder = recorder
        self._export = torch.onnx.export
        self._files: Files[MadeModel] = Files()
        self._programs: weakref.WeakKeyDictionary[Any, MadeModel] = weakref.WeakKeyDictionary()
        self._sessions: weakref.WeakKeyDictionary[Any, MadeModel] = weakref.WeakKeyDictionary()

    def export(self, model: Any, args: Any = (), f: Any = None, **options: Any) -> Any:
        """Replaces `torch.onnx.export`."""
        build = functools.partial(self._export, model, args, f, **options)
        made = None if called_by_library() or self._recorder.inside else _made(model, args, options)
        if made is None:
            return build()
        rehearse = functools.partial(made.outputs, made.args, made.kwargs)
        program = self._recorder.make(Making("torch.onnx.export", build, rehearse, self._recorder.script))
        if program is not None:
            self._programs[program] = made
        if f is not None:
            self._files.remember(f, made)
        return program

    def saving(self) -> Callable[..., Any]:
        """Return a replacement for `ONNXProgram.save`."""
        real = torch.onnx.ONNXProgram.save

        @functools.wraps(real)
        def save(program: Any, destination: Any, **options: Any) -> None:
            real(program, destination, **options)
            if made := self._programs.get(program):
                self._files.remember(destination, made)

        return save

    def calling(self) -> Callable[..., Any]:
        """Return a replacement for the call of an `ONNXProgram`."""
        real = torch.onnx.ONNXProgram.__call__

        def call(program: Any, *args: Any, **kwargs: Any) -> Any:
            made = self._programs.get(program)
            if made is None or called_by_library():
                return real(program, *args, **kwargs)
            return self._recorder.call_made(ModelCall(made, functools.partial(real, program), args, kwargs))

        return call

    def opening(self, session: Any) -> Callable[..., Any]:
        """Return a replacement for `InferenceSession.__init__`."""
        real = session.__init__

        @functools.wraps(real)
        def init(self_: Any, path_or_bytes: Any, *args: Any, **options: Any) -> None:
            build = functools.partial(real, self_, path_or_bytes, *args, **options)
            made = None if called_by_library() else self._files.known(path_or_bytes) or self._of_bytes(path_or_bytes)
            if made is None:
                build()
                return
            making = _Opening("onnxruntime.InferenceSession", build, lambda: None, self._recorder.script)
            self._recorder.make(making)
            self._sessions[self_] = made

        return init

    def _of_bytes(self, content: Any) -> MadeModel | None:
        """Return the model whose serialized bytes these are, or `None`."""
        if not isinstance(content, bytes):
            return None
        found = [made for program, made in self._programs.items() if _serialized(program) == content]
        return found[0] if len(found) == 1 else None

    def running(self, session: Any) -> Callable[..., Any]:
        """Return a replacement for `InferenceSession.run`."""
        real = session.run

        @functools.wraps(real)
        def run(self_: Any, output_names: Any, input_feed: Any, run_options: Any = None) -> Any:
            call = functools.partial(real, self_, output_names, input_feed, run_options)
            made = self._sessions.get(self_)
            names = [one.name for one in self_.get_inputs()]
            if made is None or set(input_feed) != set(names):
                return call()
            inputs = made.inputs_of([input_feed[name] for name in names])
            if inputs is None:
                return call()
            every = tuple(one.name for one in self_.get_outputs())
            return self._recorder.call_made(
                SessionCall(made, call, _Names(every, tuple(output_names or every)), inputs)
            )

        return run


class _Opening(Making):
    """The creation of a session for an exported model. If ONNX Runtime finds the file invalid, the exporter is
    wrong."""

    def declines(self, error: BaseException) -> bool:
        return _is_declined(error)


def _is_declined(error: BaseException) -> bool:
    """True unless the error says that the model is invalid: ONNX Runtime may lack an operator or a type."""
    return type(error).__name__ not in ("InvalidGraph", "Fail")


def _serialized(program: Any) -> bytes:
    try:
        return bytes(program.model_proto.SerializeToString())
    except Exception:  # too large for protobuf
        return b""


def _made(model: Any, args: Any, options: dict[str, Any]) -> MadeModel | None:
    """Return the record of a model that is exported, or `None` if it cannot be called in place of the exported one."""
    program = program_made(model)
    twin = program.twin if program else twin_of(model) if isinstance(model, torch.nn.Module) else None
    if twin is None or isinstance(model, torch.jit.ScriptModule):
        return None
    args = args if isinstance(args, tuple) else tuple(args) if isinstance(args, list) else (args,)
    kwargs = dict(options.get("kwargs") or {})
    if program and not args and not kwargs:
        args, kwargs = model.example_inputs
    if not options.get("dynamo", True):
        if args and isinstance(args[-1], dict) and not kwargs:
            args, kwargs = args[:-1], args[-1]
        if options.get("training", torch.onnx.TrainingMode.EVAL) is torch.onnx.TrainingMode.EVAL:
            twin.kept.eval()
    return MadeModel(twin, signature(twin, args, kwargs), args, kwargs)
