"""What runs on a node of a cluster, in a process that Ray keeps: orders are carried out with a pool of its own.

What an examination finds is recorded in a store of its own, which goes back whole: it is small, and holds tensors of
failures only. What must be told apart by the hunt is a value: an exception of Ray says that a process or a node died.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic, TypeVar

from driftline import __version__
from driftline.campaign.crew import screened
from driftline.campaign.orders import SuspectOrder, TurnOrder
from driftline.campaign.triage import ExaminedSuspect, Triage
from driftline.causes import Library
from driftline.checking.batch import Screened
from driftline.checking.checker import Checker
from driftline.core.errors import DriftlineError, InternalError
from driftline.core.plugins import load_plugins
from driftline.execute.pool import Pool, PoolInterrupted, WorkerStartError
from driftline.store import Bug, Store

_Value = TypeVar("_Value")
KINDS_KEPT = 6  # of workers that a process has warm; each takes memory


@dataclass(frozen=True)
class Carried(Generic[_Value]):
    """What came of an order: a value, or why there is none."""

    value: _Value | None = None
    interrupted: str = ""  # the time of the hunt is over
    cannot_start: str = ""  # a compiler cannot be started there
    internal: str = ""  # Driftline itself failed
    sentence: str = ""  # what the user can act on


@dataclass(frozen=True)
class ExaminedThere:
    """An examined suspect, with the store that holds what was found: path below it -> content."""

    examined: ExaminedSuspect
    files: dict[str, bytes] = field(default_factory=dict)


def screen_there(order: TurnOrder) -> Carried[list[Screened]]:
    return _carried(lambda pool: screened(pool, order), order.options.plugins)


def examine_there(order: SuspectOrder, library: Library | None, known: tuple[Bug, ...]) -> Carried[ExaminedThere]:
    """An examination; `known` are bugs of the hunt's store."""

    def examine(pool: Pool) -> ExaminedThere:
        elsewhere = {bug.id: bug for bug in known}
        with TemporaryDirectory(prefix="driftline-node-") as folder:
            path = Path(folder) / "store"
            with Store.create(path) as store:
                examined = Triage(Checker(pool, jobs=1), store, library, elsewhere).examine(order)
                recorded = bool(store.bugs())
            return ExaminedThere(examined, _packed(path) if recorded else {})

    return _carried(examine, order.options.plugins)


def release_here() -> str:
    """The release of Driftline, which must be the same on all nodes."""
    return __version__


def unpack(found: ExaminedThere, folder: Path) -> Path:
    """The store of an examination, written out again."""
    for name, content in found.files.items():
        path = folder / "store" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder / "store"


def _packed(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


@dataclass
class _Node:
    """What a process on a node keeps between orders."""

    pool: Pool | None = None


_NODE = _Node()


def _pool() -> Pool:
    if _NODE.pool is not None and _NODE.pool.kinds > KINDS_KEPT:
        _NODE.pool.close()
        _NODE.pool = None
    if _NODE.pool is None:
        _NODE.pool = Pool()
        atexit.register(_NODE.pool.close)
    return _NODE.pool


def _carried(work: Callable[[Pool], _Value], plugins: tuple[str, ...]) -> Carried[_Value]:
    try:
        load_plugins(plugins)
        return Carried(work(_pool()))
    except PoolInterrupted as error:
        return Carried(interrupted=str(error) or "interrupted")
    except WorkerStartError as error:
        return Carried(cannot_start=str(error))
    except InternalError as error:
        return Carried(internal=str(error))
    except DriftlineError as error:
        return Carried(sentence=str(error))
