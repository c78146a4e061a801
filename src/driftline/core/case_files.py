"""A case as workers get it: the program, with its inputs in files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from driftline.core.program import Program
from driftline.core.tensors import Arrays, load_tensors


@dataclass(frozen=True)
class CaseFiles:
    """The request data of every task that runs one program. `folder` is for files that the task writes."""

    program: Program
    inputs: tuple[Path, ...]  # one for each sample
    folder: Path
    grad: bool = False
    seed: int = 0
    plugins: tuple[str, ...] = ()

    def samples(self) -> list[Arrays]:
        return [load_tensors(path) for path in self.inputs]
