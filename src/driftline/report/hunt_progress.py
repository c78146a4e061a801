"""How a hunt looks while it runs: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

from driftline.events import BugSeen, Event, ExplainingStarted, GeneratorStopped, HuntStarted, LaneStopped, TurnDone
from driftline.report.progress import Activity, new_bug_line, note, on_terminal
from driftline.report.words import duration, plural

_LINE_EVERY = 10.0  # seconds, where there is no terminal


class HuntProgress:
    """A listener of a hunt, and of the explanations after it. Called from several threads."""

    def __init__(self) -> None:
        self._seconds = 0.0  # the budget; 0: none
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._programs: Counter[str] = Counter()
        self._counts: dict[str, Counter[str]] = {}
        self._bugs: dict[str, set[str]] = {}
        self._last_line = 0.0
        self._live: Any = None
        self._explaining: Activity | None = None

    def __enter__(self) -> HuntProgress:
        if on_terminal():
            from rich.live import Live

            from driftline.report.screen import Screen

            self._live = Live(
                get_renderable=self._table, console=Screen(stderr=True), refresh_per_second=2, transient=True
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._explaining:
            self._explaining.__exit__()
        elif self._live:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, ExplainingStarted):  # the hunt is over: its table makes room
                if self._live:
                    self._live.stop()
                self._explaining = Activity("Explaining", event.seconds)
            elif self._explaining:
                self._explaining(event)
            elif isinstance(event, HuntStarted):
                self._begin(event)
            elif isinstance(event, TurnDone):
                self._programs[event.lane] += sum(event.counts.values())
                self._counts.setdefault(event.lane, Counter()).update(event.counts)
                self._line()
            elif isinstance(event, BugSeen):
                self._bugs.setdefault(event.bug.fingerprint.backend, set()).add(event.bug.id)
                if event.new:
                    self._tell(new_bug_line(event.bug))
            elif isinstance(event, GeneratorStopped):
                self._tell(f"{event.generator} makes no more programs for {event.lane}: {event.reason}")
            elif isinstance(event, LaneStopped):
                self._tell(f"{event.lane} stopped: {event.reason}")

    def _begin(self, event: HuntStarted) -> None:
        self._seconds = event.seconds
        self._started = time.monotonic() - event.spent
        goal = f"for {duration(event.seconds)}" if event.seconds else f"{event.programs} programs each"
        resumed = f", going on after {duration(event.spent)}" if event.resumed else ""
        self._tell(f"Hunting on {', '.join(event.targets)} ({goal}, seed {event.seed}{resumed}).")
        for skipped in event.skipped:
            self._tell(f"Not hunted: {skipped.target} ({skipped.reason}).")
        for reason in event.left_out:
            self._tell(f"Left out: {reason}.")

    def _line(self) -> None:
        now = time.monotonic()
        if self._live or now - self._last_line < _LINE_EVERY:
            return
        self._last_line = now
        total = sum(self._programs.values())
        minutes = (now - self._started) / 60
        found = ", ".join(f"{name} {len(ids)}" for name, ids in sorted(self._bugs.items())) or "none yet"
        note(
            f"{minutes:5.1f} min  {total} programs ({total / max(minutes, 0.01):.0f}/min)  bugs: {found}{self._left()}"
        )

    def _left(self) -> str:
        if not self._seconds:
            return ""
        return f"  {duration(max(0.0, self._seconds - (time.monotonic() - self._started)))} left"

    def _tell(self, line: str) -> None:
        if self._live:
            self._live.console.print(line, highlight=False, markup=False)
        else:
            note(line)

    def _table(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        spent = time.monotonic() - self._started
        total = sum(self._programs.values())
        table = Table(box=None, pad_edge=False)
        for title in ("compiler", "programs", "pass", "fail", "rejected", "unjudged", "distinct bugs"):
            table.add_column(title, justify="left" if title == "compiler" else "right")
        for lane, counts in sorted(self._counts.items()):
            unjudged = counts["inconclusive"] + counts["invalid"] + counts["nothing"]
            bugs = len(self._bugs.get(lane.partition(":")[0].partition("@")[0], ()))
            row = (self._programs[lane], counts["pass"], counts["fail"], counts["rejected"], unjudged, bugs)
            table.add_row(lane, *(str(number) for number in row))
        found = plural(sum(map(len, self._bugs.values())), "distinct bug")  # lanes of one compiler share theirs
        head = Text(f"{total} programs, {total / max(spent, 1) * 60:.0f} a minute, {found}{self._left()}")
        parts: list[Any] = [head]
        if self._seconds:
            parts.append(ProgressBar(total=self._seconds, completed=min(spent, self._seconds), width=60))
        return Group(*parts, table)
