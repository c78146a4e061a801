"""Show the progress of a hunt: a live line for each compiler on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from driftline.events import (
    BugSeen,
    Event,
    ExplainingStarted,
    GeneratorStopped,
    HuntStarted,
    LaneStopped,
    TurnDone,
    Working,
)
from driftline.report.progress import LINE_EVERY, Activity, new_bug_line, on_terminal, progress_line
from driftline.report.words import duration, plural

_JUDGED = ("pass", "fail", "rejected", "unjudged")


@dataclass(frozen=True)
class _Row:
    """The progress of one lane."""

    programs: int
    rate: str  # programs a minute
    bugs: int
    left: str  # of its time


class HuntProgress:
    """A listener for the events of a hunt and of the explanations that follow. It is called from several threads.
    `spent`: the seconds of the budget that were used before the display begins.
    """

    def __init__(self, spent: float = 0.0) -> None:
        self._seconds = 0.0  # the budget; 0: none
        self._wanted = 0  # programs of each lane, where there is no budget
        self._lock = threading.Lock()
        self._started = time.monotonic() - spent  # the budget counts from here
        self._began = time.monotonic()  # the lanes work since
        self._lanes: dict[str, Counter[str]] = {}  # programs by outcome
        self._over: set[str] = set()  # lanes that do not go on
        self._bugs: dict[str, set[str]] = {}
        self._last_line = 0.0
        self._live: Any = None
        self._explaining: Activity | None = None

    def __enter__(self) -> HuntProgress:
        if on_terminal():
            from rich.live import Live

            from driftline.report.screen import Screen

            screen = Screen(stderr=True)
            self._live = Live(
                get_renderable=lambda: self._table(screen.width), console=screen, refresh_per_second=2, transient=True
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
                self._lanes.setdefault(event.lane, Counter()).update(event.counts)
                self._line()
            elif isinstance(event, BugSeen):
                self._bugs.setdefault(event.bug.fingerprint.backend, set()).add(event.bug.id)
                if event.new:
                    self._tell(new_bug_line(event.bug))
            elif isinstance(event, Working):
                self._tell(f"{event.part[:1].upper()}{event.part[1:]} ({event.words}) ...")
            elif isinstance(event, GeneratorStopped):
                self._tell(f"{event.generator} makes no more programs for {event.lane}: {event.reason}")
            elif isinstance(event, LaneStopped):
                self._over.add(event.lane)
                self._tell(f"{event.lane} stopped: {event.reason}")

    def _begin(self, event: HuntStarted) -> None:
        self._seconds, self._wanted = event.seconds, event.programs
        self._began = time.monotonic()
        self._started = self._began - event.spent
        self._lanes = {lane: Counter() for lane in event.targets}
        goal = f"for {duration(event.seconds)}" if event.seconds else f"{event.programs} programs each"
        resumed = f", going on after {duration(event.spent)}" if event.resumed else ""
        self._tell(f"Hunting on {', '.join(event.targets)} ({goal}, seed {event.seed}{resumed}).")
        for skipped in event.skipped:
            self._tell(f"Not hunted: {skipped.target} ({skipped.reason}).")
        for reason in event.left_out:
            self._tell(f"Left out: {reason}.")

    def _line(self) -> None:
        now = time.monotonic()
        if self._live or now - self._last_line < LINE_EVERY:
            return
        self._last_line = now
        total, minutes = sum(map(self._programs, self._lanes)), (now - self._started) / 60
        rate = total / max((now - self._began) / 60, 0.01)
        found = ", ".join(f"{name} {len(ids)}" for name, ids in sorted(self._bugs.items())) or "none yet"
        left = f"  {self._left(now)}" if self._seconds else ""
        progress_line(f"{minutes:5.1f} min  {total} programs ({rate:.0f}/min)  bugs: {found}{left}")

    def _left(self, now: float) -> str:
        return f"{duration(max(0.0, self._seconds - (now - self._started)))} left"

    def _total(self, now: float) -> str:
        total = sum(map(self._programs, self._lanes))
        spent = max(now - self._began, 1.0)
        found = plural(sum(map(len, self._bugs.values())), "bug")  # lanes of one compiler share theirs
        return f"{total} programs, {total / spent * 60:.0f}/min, {found}"

    def _programs(self, lane: str) -> int:
        return sum(self._lanes[lane].values())

    def _row(self, lane: str, now: float) -> _Row:
        programs = self._programs(lane)
        rate = programs / max(now - self._began, 1.0)
        left = ""
        if lane in self._over:
            left = "stopped"
        elif self._seconds:
            left = self._left(now)
        elif rate:
            left = f"{duration(max(0.0, (self._wanted - programs) / rate))} left"
        bugs = self._bugs.get(lane.partition(":")[0].partition("@")[0], ())
        return _Row(programs, f"{rate * 60:.0f}", len(bugs), left)

    def _tell(self, line: str) -> None:
        if self._live:
            self._live.console.print(line, highlight=False, markup=False)
        else:
            progress_line(line)

    def _table(self, width: int) -> Any:
        """Return a table with a line for each compiler. If the names do not fit beside all columns, fewer columns are
        shown. Numbers are never shortened; names are only if even that table is too wide.
        """
        from rich.console import Group
        from rich.padding import Padding
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        if not self._lanes:
            return Text(
                f"Nothing has run yet, after {duration(now - self._started)}.", no_wrap=True, overflow="ellipsis"
            )
        for titles, gap in ((("programs", "a minute", *_JUDGED, "bugs", ""), 2), (("run", "/min", "bugs", "left"), 1)):
            cells = {lane: self._cells(lane, now, wide=gap == 2) for lane in sorted(self._lanes)}
            taken = sum(gap + max(map(len, column)) for column in zip(titles, *cells.values(), strict=True))
            if taken + max(map(len, self._lanes)) <= width:
                break
        table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
        table.add_column("compiler", no_wrap=True, overflow="ellipsis", max_width=max(width - taken, 4))
        for title in titles:
            table.add_column(title, justify="right", no_wrap=True)
        for lane, row in cells.items():
            table.add_row(lane, *row)
        parts: list[Any] = [Text(self._total(now), no_wrap=True, overflow="ellipsis")]
        if self._seconds:
            spent = min(now - self._started, self._seconds)
            bar = ProgressBar(total=self._seconds, completed=spent, width=min(60, width))
            parts.append(Padding(bar, 0))  # by itself it has no end of line
        return Group(*parts, table)

    def _cells(self, lane: str, now: float, *, wide: bool) -> tuple[str, ...]:
        row, counts = self._row(lane, now), self._lanes[lane]
        if not wide:
            return str(row.programs), row.rate, str(row.bugs), row.left.removesuffix(" left")
        unjudged = counts["inconclusive"] + counts["invalid"] + counts["nothing"]
        verdicts = (counts["pass"], counts["fail"], counts["rejected"], unjudged)
        return (str(row.programs), row.rate, *map(str, verdicts), str(row.bugs), row.left)
