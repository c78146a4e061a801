"""The lab's requests to workers. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from driftline.core.case_files import CaseFiles
from driftline.core.task import Task


@dataclass(frozen=True)
class LabRequest:
    """A request to capture, inspect or compare a program, and to leave a run in the folder of the case."""

    case: CaseFiles
    name: str
    backend: str = "inductor"  # of torch.compile
    device: str = "cpu"
    dynamic: bool | None = None
    reference: str = "eager"
    runs: int = 1
    pictures: bool = False
    patience: float = 600.0  # seconds of a comparison after which the oracle is not waited for


@dataclass(frozen=True)
class LabAnswer:
    """The folder of the run, or the reason why there is none."""

    run: Path | None = None
    problem: str = ""


CAPTURE = Task("driftline.inductor.tasks:capture", LabRequest, LabAnswer)
GUARDS = Task("driftline.inductor.tasks:guards", LabRequest, LabAnswer)
DIFF = Task("driftline.inductor.tasks:diff", LabRequest, LabAnswer)
