"""Requests to workers about values inside a program: list them, or write the program with some as outputs.

The functions are in `taps/tasks.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from driftline.core.case_files import CaseFiles
from driftline.core.task import Task
from driftline.core.tensors import TensorSpec
from driftline.programs.taps.tap import Tap


@dataclass(frozen=True)
class FindRequest:
    """A request for the taps of a program. A torch program is first exported to `graph`, which is tapped later."""

    case: CaseFiles
    graph: Path


@dataclass(frozen=True)
class FoundTaps:
    taps: tuple[Tap, ...] = ()
    exported: bool = False
    problem: str = ""  # why there are none


@dataclass(frozen=True)
class TapRequest:
    """A request to write the program with `taps` as outputs to `output`; `cuts` are values that become inputs."""

    case: CaseFiles
    taps: tuple[str, ...]
    cuts: tuple[str, ...]
    cut_values: Path
    returned: bool  # its own results follow
    output: Path


@dataclass(frozen=True)
class TappedForm:
    """The inputs and outputs of a tapped program. `order`: the name of the value for each input."""

    inputs: tuple[TensorSpec, ...]
    order: tuple[str, ...]
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class TapAnswer:
    form: TappedForm | None = None
    problem: str = ""


FIND = Task("driftline.programs.taps.tasks:find", FindRequest, FoundTaps)
WRITE_TAPPED = Task("driftline.programs.taps.tasks:write", TapRequest, TapAnswer)
