"""A case as workers get it: the program, and its inputs in files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from driftline.core.program import Program
from driftline.core.tensors import Arrays, load_tensors


@dataclass(frozen=True)
class CaseFiles:
    """What every task that runs one program is given. `folder` is for what it writes."""

    program: Program
    inputs: tuple[Path, ...]  # one for each sample
    folder: Path
    grad: bool = False
    seed: int = 0
    plugins: tuple[str, ...] = ()

    def samples(self) -> list[Arrays]:
        return [load_tensors(path) for path in self.inputs]
