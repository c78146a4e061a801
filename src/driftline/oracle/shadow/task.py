"""The task that executes a program's shadow in a worker of its framework.

For `runs` samples on one input sample, it writes the float64 reference, the samples, and the band of legal steps and
choices. With the outputs of a compiler, the valid choices among them are adopted first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from driftline.core.case_files import CaseFiles
from driftline.core.handover import handed
from driftline.core.plugins import load_plugins
from driftline.core.registry import import_string
from driftline.core.task import Context, Task
from driftline.core.tensors import Arrays, load_tensors, save_tensors
from driftline.oracle.arithmetic import declared
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.rule import ShadowAnswer
from driftline.oracle.shadow.player import Player, Shadow
from driftline.programs.opened import OpenedProgram, ProgramChanged

# Keyed by witness: the framework itself, or another one that can run its programs.
FRONT_ENDS = {
    "torch": "driftline.oracle.shadow.torch.front:open_shadow",
    "onnx": "driftline.oracle.shadow.onnx.front:open_shadow",
    "onnx-player": "driftline.oracle.shadow.onnx.player_front:open_shadow",
}


@dataclass(frozen=True)
class ShadowRequest:
    """A request for the rounding noise of the result on one sample."""

    case: CaseFiles
    witness: str
    sample: int
    runs: int
    arithmetic: str
    outputs: Path | None = None  # outputs of a compiler, whose valid choices are adopted


@dataclass(frozen=True)
class ShadowFiles:
    """A `ShadowAnswer` whose arrays are stored in files."""

    reference: Path
    samples: Path
    low: Path
    high: Path
    open: Path
    readings: Path
    bound: Path
    choices: Mapping[str, str]
    choosing: tuple[str, ...]
    clauses: tuple[str, ...]
    unruled: tuple[str, ...]
    uses: tuple[str, ...]
    worst_case: float

    def require_handed(self) -> ShadowFiles:
        """Return these files. Raises `DamagedFile` if the worker named a file that it may not hand over."""
        for value in vars(self).values():
            if isinstance(value, Path):
                handed(value)
        return self

    def read(self, most: int | None = None) -> ShadowAnswer:
        """Read the arrays. Raises `TooLarge` for a file of more than `most` bytes."""
        return ShadowAnswer(
            reference=load_tensors(self.reference, most=most),
            samples=load_tensors(self.samples, most=most),
            low=load_tensors(self.low, most=most),
            high=load_tensors(self.high, most=most),
            choices=self.choices,
            choosing=self.choosing,
            open=load_tensors(self.open, most=most),
            readings=load_tensors(self.readings, most=most),
            bound=load_tensors(self.bound, most=most),
            clauses=self.clauses,
            unruled=self.unruled,
            uses=self.uses,
            worst_case=self.worst_case,
        )


@dataclass(frozen=True)
class ShadowReply:
    """The reply to a `ShadowRequest`: the files, or the reason why there is no shadow."""

    found: ShadowFiles | None = None
    problem: str = ""  # why there is no shadow


PLAY = Task("driftline.oracle.shadow.task:play", ShadowRequest, ShadowReply)


@PLAY.serve
def play(request: ShadowRequest, context: Context) -> ShadowReply:
    """Execute the shadow of a program and write its answer to files."""
    case = request.case
    load_plugins(case.plugins)
    arrays = load_tensors(case.inputs[request.sample])
    program = OpenedProgram.of(case, arrays)
    try:
        open_shadow = import_string(FRONT_ENDS[request.witness])
        shadow: Shadow = open_shadow(program, arrays, declared(request.arithmetic))
        return ShadowReply(play_shadow(shadow, request.runs, request.outputs, case.folder))
    except (NoExactReference, ProgramChanged) as reason:
        return ShadowReply(problem=str(reason))


def play_shadow(shadow: Shadow, runs: int, outputs: Path | None, folder: Path) -> ShadowFiles:
    """Ask the shadow and write the arrays of its answer to files in `folder`."""
    found = ask_shadow(shadow, runs, load_tensors(outputs) if outputs else None)
    return ShadowFiles(
        reference=_write(folder / "shadow.reference", found.reference),
        samples=_write(folder / "shadow.samples", found.samples),
        low=_write(folder / "shadow.low", found.low),
        high=_write(folder / "shadow.high", found.high),
        open=_write(folder / "shadow.open", found.open),
        readings=_write(folder / "shadow.readings", found.readings),
        bound=_write(folder / "shadow.bound", found.bound),
        choices=found.choices,
        choosing=found.choosing,
        clauses=found.clauses,
        unruled=found.unruled,
        uses=found.uses,
        worst_case=found.worst_case,
    )


def _write(path: Path, arrays: Arrays) -> Path:
    save_tensors(path, arrays)
    return path


def ask_shadow(shadow: Shadow, runs: int, outputs: Arrays | None) -> ShadowAnswer:
    """Ask a shadow once, in this process, and return its answer."""
    return Player(shadow).ask(runs, outputs)
