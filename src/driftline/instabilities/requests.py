"""What workers are asked: write composed models, and run the reference of models. The functions are in `tasks.py`."""

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
    """Write each model to the folder as NAME.py, NAME.pt (TorchScript) and NAME.onnx."""

    models: tuple[NamedGraph, ...]
    folder: Path


@dataclass(frozen=True)
class WrittenModels:
    """By the model's number: why it could not be written, or nothing."""

    problems: tuple[str, ...]


WRITE_MODELS = Task(f"{_TASKS}:write_models", WriteModelsRequest, WrittenModels)


@dataclass(frozen=True)
class ReferItem:
    """A program and the place of its input samples."""

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
    """The places of what the program makes of its samples: in its own dtypes, and in float64 where that is known."""

    native: str = ""
    exact: str = ""
    problem: str = ""  # why there is no reference


@dataclass(frozen=True)
class ReferredBatch:
    """One for each item, in their order."""

    items: tuple[Referred, ...]


REFER = Task(f"{_TASKS}:refer", ReferRequest, ReferredBatch)
