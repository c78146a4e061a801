"""Store the state of hunts for slow programs: one file for each, rewritten after every program, so that a killed hunt
can be resumed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from driftline.core.errors import DriftlineError
from driftline.core.private import own_folder, read_plain, write_private
from driftline.core.text import to_json
from driftline.core.wire import WireError, decode, encode
from driftline.perf.comparison import LIMIT
from driftline.store import Store

FOLDER = "perf-hunts"
_MOST = 8 << 20  # bytes of an entry that are read


@dataclass(frozen=True)
class PerfPlan:
    """The settings of a hunt."""

    targets: tuple[str, ...]
    against: str = "eager"
    ratio: float = LIMIT
    seconds: float = 600.0
    seed: int = 0
    programs: int = 0  # no more than these; 0: as many as the time allows


@dataclass(frozen=True)
class PerfHuntEntry:
    """The state of a hunt. Programs before `number` are done."""

    id: int
    plan: PerfPlan
    number: int = 0
    seconds: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)  # outcome of a program on a target, in a word -> number
    bugs: tuple[str, ...] = ()
    finished: bool = False


class PerfJournal:
    """The hunts for slow programs in a store."""

    def __init__(self, store: Store) -> None:
        self._folder = store.path / FOLDER

    def begin(self, plan: PerfPlan) -> PerfHuntEntry:
        own_folder(self._folder)
        entry = PerfHuntEntry(1 + self.last(), plan)
        self.keep(entry)
        return entry

    def keep(self, entry: PerfHuntEntry) -> None:
        data = to_json(encode(PerfHuntEntry, entry), indent=1).encode()
        write_private(self._folder / f"{entry.id}.json", [data], lasting=True)

    def last(self) -> int:
        """Return the number of the last hunt, or 0 if there is none."""
        return max((int(path.stem) for path in self._files()), default=0)

    def entry(self, number: int) -> PerfHuntEntry:
        """Return the state of a hunt."""
        return _read(self._folder / f"{number}.json")

    def unfinished(self, seconds: float = 0.0) -> PerfHuntEntry:
        """Return the last unfinished hunt. `seconds`: a new budget, which counts from the start of the hunt."""
        for path in sorted(self._files(), key=lambda path: -int(path.stem)):
            entry = _read(path)
            if entry.finished:
                continue
            if seconds:
                entry = replace(entry, plan=replace(entry.plan, seconds=seconds))
            if entry.plan.seconds <= entry.seconds:
                raise DriftlineError(
                    f"The budget counts from the beginning of the hunt, which has run for {entry.seconds:.0f} s"
                    " already; give a longer --budget."
                )
            return entry
        raise DriftlineError(
            f"There is no unfinished perf hunt in {self._folder.parent}; leave out --resume to start one."
        )

    def _files(self) -> list[Path]:
        return [path for path in self._folder.glob("*.json") if path.stem.isdigit()]


def _read(path: Path) -> PerfHuntEntry:
    try:
        return decode(PerfHuntEntry, json.loads(read_plain(path, _MOST)))
    except (OSError, ValueError, RecursionError, WireError) as error:
        raise DriftlineError(f"{path} is damaged ({error}); remove it, and start a new hunt.") from error
