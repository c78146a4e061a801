"""Examines a suspect in another process than the hunt's, on a node of a cluster.

What it finds is recorded in a store of its own, which goes back whole: it is small, and holds tensors of failures only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from driftline.campaign.orders import SuspectOrder
from driftline.campaign.triage.examination import ExaminedSuspect, Triage
from driftline.causes import Library
from driftline.checking.checker import Checker
from driftline.execute.pool import Pool
from driftline.store import Bug, Store


@dataclass(frozen=True)
class ExaminedApart:
    """An examined suspect, with the files of the store that holds its findings: path below the store -> content."""

    examined: ExaminedSuspect
    files: dict[str, bytes] = field(default_factory=dict)

    def unpack(self, folder: Path) -> Path:
        """Write the files of the examination's store below `folder`, and return the store's path."""
        for name, content in self.files.items():
            path = folder / "store" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return folder / "store"


def examine_apart(pool: Pool, order: SuspectOrder, library: Library | None, known: tuple[Bug, ...]) -> ExaminedApart:
    """Examine a suspect in a temporary store, and return the result with that store. `known`: the hunt's bugs."""
    elsewhere = {bug.id: bug for bug in known}
    with TemporaryDirectory(prefix="driftline-apart-") as folder:
        path = Path(folder) / "store"
        with Store.create(path) as store:
            examined = Triage(Checker(pool, jobs=1), store, library, elsewhere).examine(order)
            recorded = bool(store.bugs())
        return ExaminedApart(examined, _packed(path) if recorded else {})


def _packed(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
