"""Records the progress of a job from its events, and writes it to the file that the server reads (`records.py`)."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from driftline.checking.checker import Skipped, TargetResult
from driftline.core.quoting import one_line
from driftline.core.text import plural
from driftline.events import (
    AuditStarted,
    BugSeen,
    CheckStarted,
    Event,
    ExplainingStarted,
    GeneratorStopped,
    HuntStarted,
    LaneStopped,
    NotExplained,
    OutOfReach,
    TargetDone,
    TargetStarted,
    TurnDone,
    Working,
)
from driftline.report.terminal import row_line
from driftline.report.words import duration
from driftline.serve import records
from driftline.serve.records import JobProgress, LaneRow, SeenBug, TargetRow

EVERY = 0.3  # seconds between two writes of the progress
STARTING = "Starting: frameworks and compilers are being imported."  # takes up to a minute, without events


class ProgressWriter:
    """An event listener that keeps a job's progress and writes it at intervals. Thread-safe."""

    def __init__(self, folder: Path, progress: JobProgress) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._progress = replace(
            progress, began=time.time(), code=None, outcome="", ended=0.0, targets=(), doing=STARTING
        )
        self._before = {lane.target: lane for lane in progress.lanes}
        self._dirty = True
        self._over = threading.Event()
        self._writer = threading.Thread(target=self._write_often, daemon=True)

    def __enter__(self) -> ProgressWriter:
        records.save_progress(self._folder, self._progress)
        self._writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._writer.join()

    @property
    def progress(self) -> JobProgress:
        return self._progress

    def end(self, code: int, outcome: str) -> None:
        self._over.set()
        self._writer.join()
        self._progress = replace(self._progress, code=code, outcome=outcome, ended=time.time(), doing="")
        records.save_progress(self._folder, self._progress)

    def say(self, line: str) -> None:
        """Add a line to the job's log of events."""
        with self._lock:
            self._keep(line)

    def _keep(self, line: str) -> None:
        lines = (*self._progress.lines, one_line(line, 400))
        self._set(lines=lines[-records.LINES :])

    def _set(self, **changes: object) -> None:
        self._progress = replace(self._progress, **changes)  # type: ignore[arg-type]
        self._dirty = True

    def _write_often(self) -> None:
        while not self._over.wait(EVERY):
            with self._lock:
                written, self._dirty = self._dirty, False
                progress = self._progress
            if written:
                records.save_progress(self._folder, progress)

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._hear(event)

    def _hear(self, event: Event) -> None:
        if self._progress.doing == STARTING:
            self._set(doing="")
        if isinstance(event, Working):
            self._set(doing=f"{event.part}: {event.words}" if event.words else event.part)
        elif isinstance(event, BugSeen):
            self._bug(event)
        elif isinstance(event, HuntStarted):
            self._hunt(event)
        elif isinstance(event, TurnDone):
            self._turn(event)
        elif isinstance(event, AuditStarted):
            self._set(number=event.number, run=event.run, seconds=event.seconds, began=time.time() - event.spent)
            self._keep(f"Auditing {', '.join(event.compilers)}.")
        elif isinstance(event, CheckStarted):
            self._set(targets=tuple(TargetRow(str(target)) for target in event.targets))
        elif isinstance(event, TargetStarted):
            usual = f"usually takes about {event.expected:.0f} s" if event.expected is not None else "running"
            self._row(TargetRow(str(event.target), "", usual))
        elif isinstance(event, TargetDone):
            verdict = _verdict(event.result)
            words = row_line(event.result).removeprefix(verdict).strip()  # the verdict has a column of its own
            self._row(TargetRow(str(event.target), verdict, one_line(words, 400)))
        else:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        """Add a line to the log for an event that deserves one."""
        if isinstance(event, LaneStopped):
            self._keep(f"{event.lane} stopped: {event.reason}")
        elif isinstance(event, GeneratorStopped):
            self._keep(f"{event.generator} makes no more programs for {event.lane}: {event.reason}")
        elif isinstance(event, OutOfReach):
            self._keep(f"Out of reach of ordinary code: {event.rule}, {event.mutation}")
        elif isinstance(event, ExplainingStarted):
            self._keep(f"Explaining {plural(len(event.bugs), 'bug')}.")
        elif isinstance(event, NotExplained):
            self._keep(f"{event.bug}: {event.reason}")

    def _hunt(self, event: HuntStarted) -> None:
        self._set(
            number=event.number,
            run=event.run,
            seconds=event.seconds,
            began=time.time() - event.spent,
            lanes=tuple(self._before.get(target, LaneRow(target)) for target in event.targets),
            doing="",
        )
        again = f", going on after {duration(event.spent)}" if event.resumed else ""
        self._keep(f"Hunting on {', '.join(event.targets)} (seed {event.seed}{again}).")
        for skipped in event.skipped:
            self._keep(f"Not hunted: {skipped.target} ({skipped.reason}).")
        for reason in event.left_out:
            self._keep(f"Left out: {reason}.")

    def _turn(self, event: TurnDone) -> None:
        counts = Counter(event.counts)
        rows = tuple(_with_turn(row, counts) if row.target == event.lane else row for row in self._progress.lanes)
        self._set(lanes=rows)

    def _row(self, row: TargetRow) -> None:
        others = self._progress.targets
        known = any(one.target == row.target for one in others)
        self._set(
            targets=tuple(row if one.target == row.target else one for one in others) if known else (*others, row)
        )

    def _bug(self, event: BugSeen) -> None:
        mark = event.bug.fingerprint
        if any(one.id == event.bug.id for one in self._progress.bugs):
            return
        seen = SeenBug(event.bug.id, mark.kind, one_line(event.how or mark.detail, 160), event.new)
        self._set(bugs=(*self._progress.bugs, seen))


def _with_turn(row: LaneRow, counts: Counter[str]) -> LaneRow:
    return LaneRow(
        row.target,
        row.programs + sum(counts.values()),
        row.passed + counts["pass"],
        row.failed + counts["fail"],
        row.rejected + counts["rejected"],
        row.unjudged + counts["inconclusive"] + counts["invalid"] + counts["nothing"],
    )


def _verdict(result: TargetResult | Skipped) -> str:
    return "skipped" if isinstance(result, Skipped) else str(result.verdict.judgement)
