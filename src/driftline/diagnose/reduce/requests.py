"""Requests to workers during reduction and localisation: read a program into a graph, evaluate a graph, write
candidates.

The functions are in `diagnose/reduce/tasks.py` and `diagnose/localize/tasks.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from driftline.checking.batch_requests import PreparedBatch
from driftline.core.case_files import CaseFiles
from driftline.core.task import Task
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph

_TASKS = "driftline.diagnose.reduce.tasks"


@dataclass(frozen=True)
class ReadRequest:
    """Read the program of a case into a graph; values go to the folder `values`."""

    case: CaseFiles
    values: Path
    tracer: str = ""


@dataclass(frozen=True)
class ReadEvaluated:
    evaluated: Evaluated | None = None
    problem: str = ""  # why there is none


@dataclass(frozen=True)
class ReadGraph:
    graph: ProgramGraph | None = None
    problem: str = ""  # why there is none


READ = Task(f"{_TASKS}:read", ReadRequest, ReadEvaluated)
READ_ALONE = Task("driftline.diagnose.localize.tasks:read", ReadRequest, ReadGraph)  # without running it


@dataclass(frozen=True)
class EvaluateRequest:
    """Compute every value of the graph."""

    graph: ProgramGraph
    framework: str
    values: Path
    samples: int


EVALUATE = Task(f"{_TASKS}:evaluate", EvaluateRequest, Evaluated)


@dataclass(frozen=True)
class GraphCandidate:
    graph: ProgramGraph
    others: tuple[tuple[str, ...], ...] = ()  # the data of its leaves in further versions to test


@dataclass(frozen=True)
class TextCandidate:
    text: str
    inputs: Mapping[str, str]  # by name: where its numbers are kept
    operators: tuple[str, ...]


CandidateRequest = GraphCandidate | TextCandidate


@dataclass(frozen=True)
class TextFrame:
    """The other files that a program text needs, and the name of its factory."""

    files: Mapping[str, str] = field(default_factory=dict)
    entry: str = ""


NO_FRAME = TextFrame()


@dataclass(frozen=True)
class WriteRequest:
    """Write candidates as programs, with their inputs and, with `refer`, the results of their reference."""

    folder: Path
    values: Path
    requests: tuple[CandidateRequest, ...]
    refer: bool
    framework: str
    name: str
    origins: tuple[str, ...]  # of the samples
    grad: bool
    seed: int
    company: str
    frame: TextFrame
    meaningful: bool  # candidates that make no sense where the original does are no programs
    allowed: tuple[str, ...] | None  # the flaws of the original, if known
    plugins: tuple[str, ...] = ()


WRITE = Task(
    f"{_TASKS}:prepare", WriteRequest, PreparedBatch, lambda asked, made: len(made.programs) == len(asked.requests)
)
