"""Requests to workers: write composed models, and run the reference of models. The functions are in `tasks.py`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from driftline.core.program import Program
from driftline.core.task import Task
from driftline.generate.graph import Graph

_TASKS = "driftline.instabilities.tasks"


@dataclass(frozen=True)
class NamedGraph:
    name: str
    graph: Graph


@dataclass(frozen=True)
class WriteModelsRequest:
    """Asks to write each model to the folder as NAME.py, NAME.pt (TorchScript) and NAME.onnx."""

    models: tuple[NamedGraph, ...]
    folder: Path


@dataclass(frozen=True)
class WrittenModels:
    """For each model, in order: why it could not be written, or an empty string."""

    problems: tuple[str, ...]


WRITE_MODELS = Task(f"{_TASKS}:write_models", WriteModelsRequest, WrittenModels)


@dataclass(frozen=True)
class ReferItem:
    """A program and the file with its input samples."""

    program: Program
    tensors: str
    origins: tuple[str, ...]


@dataclass(frozen=True)
class ReferRequest:
    items: tuple[ReferItem, ...]
    folder: Path
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Referred:
    """The files with the reference results of a program: in its own dtypes, and in float64 if known (else empty)."""

    native: str = ""
    exact: str = ""
    problem: str = ""  # why there is no reference


@dataclass(frozen=True)
class ReferredBatch:
    """One `Referred` for each item, in order."""

    items: tuple[Referred, ...]


REFER = Task(f"{_TASKS}:refer", ReferRequest, ReferredBatch)
