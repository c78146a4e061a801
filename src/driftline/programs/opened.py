"""A program as backends see it, inside a worker: its file, and the live object on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from driftline.core.case_files import CaseFiles
from driftline.core.errors import DriftlineError
from driftline.core.program import Program, SourceBundle
from driftline.core.tensors import Arrays
from driftline.programs.live import LiveProgram
from driftline.programs.onnx.file import load_model, model_from, serialised
from driftline.programs.pickled import load_exported
from driftline.programs.source import live_from_source, seed_everything
from driftline.programs.state import recording_opened_files, state_digest


class ProgramChanged(DriftlineError):
    """Raised when the program is not the one that was inspected: comparisons would be meaningless."""


class OpenedProgram:
    """The program that `Backend.compile` gets."""

    def __init__(
        self,
        program: Program,
        *,
        example: Arrays,
        grad: bool = False,
        seed: int = 0,
        enter: Callable[[str], None] = lambda stage: None,
        open_axes: Mapping[str, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        self.program = program
        self.form = program.form
        self.framework = program.framework
        self.path = program.path
        self.example = example
        self.grad = grad
        self.seed = seed
        self.drawn_otherwise = 0  # added to the seed of the program's random numbers, not of the gradients' weights
        self.enter = enter
        self.open_axes = open_axes  # by input: axes along which it is going to be run at several sizes
        self.captured: Path | None = (
            None  # the program as torch.export sees it, where targets share that: see captured.py
        )

    @cached_property
    def live(self) -> LiveProgram:
        """The callable with its example arguments; for `source` and `torch` forms."""
        return self.fresh()

    def fresh(self) -> LiveProgram:
        """Load the callable with its example arguments again."""
        if self.form == "source":
            bundle = SourceBundle.load(self.path.read_bytes())
            with recording_opened_files() as opened:
                live = live_from_source(bundle, self.program.origin, self.seed)
            if self.program.state and state_digest(live, opened) != self.program.state:
                raise ProgramChanged(
                    "the factory does not return the same model each time: its weights or inputs differ from the first"
                    " call, or a data file changed; seed everything it draws"
                )
            return live
        if self.form == "torch":
            return live_from_archive(self.path)
        raise TypeError(f"a program in the form {self.form!r} is not a callable")

    @cached_property
    def data(self) -> bytes:
        """The bytes of an `onnx` or `tflite` program. For big models use `source` and `model`."""
        return serialised(self.path) if self.program.data else self.path.read_bytes()

    @property
    def source(self) -> str | bytes:
        """The argument for an ONNX runtime: the bytes of the model, or its path if weights are stored beside it."""
        return str(self.path) if self.program.data and "data" not in self.__dict__ else self.data

    def model(self) -> Any:
        """Return an `onnx` program as a ModelProto with all its weights."""
        if "data" in self.__dict__:  # read before, or set by code that changed the model
            return model_from(self.data)
        return load_model(self.path)

    def reseed(self) -> None:
        """Reset every random generator to the state in which the program is run, equal for all targets."""
        seed_everything(self.seed + self.drawn_otherwise)

    @staticmethod
    def of(case: CaseFiles, example: Arrays, enter: Callable[[str], None] = lambda stage: None) -> OpenedProgram:
        return OpenedProgram(case.program, example=example, grad=case.grad, seed=case.seed, enter=enter)

    @staticmethod
    def of_live(
        program: Program, live: LiveProgram, *, example: Arrays, grad: bool = False, seed: int = 0
    ) -> OpenedProgram:
        """Return a program whose callable exists already."""
        opened = OpenedProgram(program, example=example, grad=grad, seed=seed)
        opened.live = live
        return opened


def live_from_archive(path: Path) -> LiveProgram:
    return live_of_archive(load_archive(path))


def load_archive(path: Path) -> Any:
    return load_exported(path)


def live_of_archive(exported: Any) -> LiveProgram:
    args, kwargs = exported.example_inputs or ((), {})
    names = [*_positional_names(exported, len(args)), *kwargs]
    arguments = dict(zip(names, (*args, *kwargs.values()), strict=True))
    return LiveProgram("torch", exported.module(), arguments, positional=bool(args), keywords=frozenset(kwargs))


def _positional_names(exported: Any, count: int) -> list[str]:
    """Return the names of the positional parameters; if the archive lacks them, the names of its inputs if these are
    flat, else arg0, arg1..."""
    signature = exported.module_call_graph[0].signature if exported.module_call_graph else None
    names = [str(name) for name in getattr(signature, "forward_arg_names", None) or ()]
    flat = [str(name) for name in exported.graph_signature.user_inputs]
    if len(flat) >= count and len(flat) == len(exported.example_inputs[0]) + len(exported.example_inputs[1]):
        return flat[:count]
    return names[:count] if len(names) >= count else [f"arg{i}" for i in range(count)]


def open_axes(samples: Sequence[Arrays]) -> dict[str, tuple[int, ...]]:
    """Return the inputs and axes whose size differs between the samples."""
    first = samples[0]
    found = {
        name: tuple(axis for axis in range(array.ndim) if len({s[name].shape[axis] for s in samples}) > 1)
        for name, array in first.items()
    }
    return {name: axes for name, axes in found.items() if axes}
