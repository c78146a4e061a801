"""An examination in another process than the hunt's, by a node of a cluster.

What it finds is recorded in a store of its own, which goes back whole: it is small, and holds tensors of failures only.
What must be told apart by the hunt is a value, since an exception is told by the name of its class alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic, TypeVar

from driftline.campaign.orders import SuspectOrder
from driftline.campaign.triage import ExaminedSuspect, Triage
from driftline.causes import Library
from driftline.checking.checker import Checker
from driftline.core.errors import DriftlineError, InternalError
from driftline.core.plugins import load_plugins
from driftline.execute.pool import Pool, PoolInterrupted, WorkerStartError
from driftline.store import Bug, Store

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Carried(Generic[_Value]):
    """What came of an order: a value, or why there is none."""

    value: _Value | None = None
    interrupted: str = ""  # the time of the hunt is over
    cannot_start: str = ""  # a compiler cannot be started there
    internal: str = ""  # Driftline itself failed
    sentence: str = ""  # what the user can act on

    def unwrap(self) -> _Value:
        """The value, or what was raised there."""
        if self.interrupted:
            raise PoolInterrupted(self.interrupted)
        if self.cannot_start:
            raise WorkerStartError(self.cannot_start)
        if self.internal:
            raise InternalError(self.internal)
        if self.sentence:
            raise DriftlineError(self.sentence)
        assert self.value is not None
        return self.value


def carried_out(work: Callable[[], _Value], plugins: tuple[str, ...]) -> Carried[_Value]:
    try:
        load_plugins(plugins)
        return Carried(work())
    except PoolInterrupted as error:
        return Carried(interrupted=str(error) or "interrupted")
    except WorkerStartError as error:
        return Carried(cannot_start=str(error))
    except InternalError as error:
        return Carried(internal=str(error))
    except DriftlineError as error:
        return Carried(sentence=str(error))


@dataclass(frozen=True)
class ExaminedApart:
    """An examined suspect, with the store that holds what was found: path below it -> content."""

    examined: ExaminedSuspect
    files: dict[str, bytes] = field(default_factory=dict)

    def unpack(self, folder: Path) -> Path:
        """The store of the examination, written out again."""
        for name, content in self.files.items():
            path = folder / "store" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return folder / "store"


def examine_apart(pool: Pool, order: SuspectOrder, library: Library | None, known: tuple[Bug, ...]) -> ExaminedApart:
    """An examination; `known` are bugs of the hunt's store."""
    elsewhere = {bug.id: bug for bug in known}
    with TemporaryDirectory(prefix="driftline-apart-") as folder:
        path = Path(folder) / "store"
        with Store.create(path) as store:
            examined = Triage(Checker(pool, jobs=1), store, library, elsewhere).examine(order)
            recorded = bool(store.bugs())
        return ExaminedApart(examined, _packed(path) if recorded else {})


def _packed(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
