"""The work of a job, in its own process (`child.py`): what a command does, through the same calls (`workbench.py`).

How far it is goes into a file that the server reads (`records.py`). An interrupt ends it as Ctrl-C ends a command: what
was found is in the store, and the job can be resumed.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from driftline.causes import load as load_causes
from driftline.checking.checker import Skipped, TargetResult
from driftline.core.errors import NOTHING_COMPARED, DriftlineError, InternalError
from driftline.core.notices import listen
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
from driftline.report.annotated import accepted_among
from driftline.report.terminal import row_line
from driftline.report.words import duration
from driftline.serve import records
from driftline.serve.orders import AuditOrder, CheckOrder, DiagnosisOrder, HuntOrder
from driftline.serve.records import JobProgress, JobRecord, LaneRow, SeenBug, TargetRow
from driftline.workbench import Workbench

EVERY = 0.3  # seconds between two writes of the progress


class ProgressWriter:
    """A listener that keeps the progress of a job, and writes it down now and then. Called from several threads."""

    def __init__(self, folder: Path, progress: JobProgress) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._progress = replace(progress, began=time.time(), code=None, outcome="", ended=0.0, targets=())
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
        """A line of the log of what happened."""
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
        if isinstance(event, Working):
            self._set(doing=f"{event.part}: {event.words}" if event.words else event.part)
        elif isinstance(event, BugSeen):
            self._bug(event)
        elif isinstance(event, HuntStarted):
            self._hunt(event)
        elif isinstance(event, TurnDone):
            self._turn(event)
        elif isinstance(event, AuditStarted):
            self._set(number=event.number, seconds=event.seconds, began=time.time() - event.spent)
            self._keep(f"Auditing {', '.join(event.compilers)}.")
        elif isinstance(event, CheckStarted):
            self._set(targets=tuple(TargetRow(str(target)) for target in event.targets))
        elif isinstance(event, TargetStarted):
            usual = f"usually takes about {event.expected:.0f} s" if event.expected is not None else "running"
            self._row(TargetRow(str(event.target), "", usual))
        elif isinstance(event, TargetDone):
            verdict = _verdict(event.result)
            words = row_line(event.result).removeprefix(verdict).strip()  # it stands in a column of its own
            self._row(TargetRow(str(event.target), verdict, one_line(words, 400)))
        else:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        """What is worth a line."""
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


# -- the four kinds of work ------------------------------------------------------------------------------------------


def do(record: JobRecord, bench: Workbench, folder: Path, heard: ProgressWriter) -> tuple[int, str]:
    """The exit code of the command that does the same, and what came out in a sentence."""
    order = record.order
    if isinstance(order, HuntOrder):
        return _hunt(order, bench, heard)
    if isinstance(order, AuditOrder):
        return _audit(order, bench, heard)
    if isinstance(order, DiagnosisOrder):
        return _diagnose(order, bench, heard)
    return _check(order, bench, folder, heard)


def _hunt(order: HuntOrder, bench: Workbench, heard: ProgressWriter) -> tuple[int, str]:
    if number := heard.progress.number:
        found = bench.hunt(resume=True, number=number, diagnose=order.diagnose, listener=heard)
    else:
        found = bench.hunt(
            seconds=order.seconds,
            targets=[order.targets] if order.targets else None,
            generators=order.generators or None,
            seed=order.seed,
            accept=order.accept,
            diagnose=order.diagnose,
            listener=heard,
        )
    _no_bug_of_ours(found.internal_errors)
    tested = f"{plural(sum(found.programs.values()), 'program')} on {plural(len(found.programs), 'compiler')}"
    if set(found.bugs) - accepted_among(found.bugs.values()):
        return 1, f"{tested}: {plural(len(found.bugs), 'bug')}, {len(found.new)} of them new."
    if not found.judged and not found.bugs:
        return NOTHING_COMPARED, f"{tested}: nothing was compared. Give it more time, or other targets."
    return 0, f"{tested}: no bug."


def _audit(order: AuditOrder, bench: Workbench, heard: ProgressWriter) -> tuple[int, str]:
    if number := heard.progress.number:
        found = bench.audit(resume=True, number=number, listener=heard)
    else:
        found = bench.audit(
            seconds=order.seconds,
            compilers=[name.strip() for name in order.compilers.split(",")] if order.compilers else None,
            only=order.only,
            seed=order.seed,
            listener=heard,
        )
    _no_bug_of_ours(found.internal_errors)
    rules = sum(len(one.rules) for one in found.compilers.values())
    return (1 if found.bugs else 0), f"{plural(rules, 'rule')} audited: {plural(len(found.bugs), 'bug')}."


def _diagnose(order: DiagnosisOrder, bench: Workbench, heard: ProgressWriter) -> tuple[int, str]:
    heard(Working(order.bug, "starting"))
    found = bench.diagnose(order.bug, seconds=order.seconds, listener=heard)
    _no_bug_of_ours(found.internal_errors)
    for line in found.to_json()["summary"]:
        heard.say(line)
    return 1, f"{order.bug} is explained as far as the time allowed; its page shows it."


def _check(order: CheckOrder, bench: Workbench, folder: Path, heard: ProgressWriter) -> tuple[int, str]:
    heard(Working(order.shown, "opening it"))
    found = bench.check(
        order.program(folder),
        targets=[order.targets] if order.targets else None,
        inputs=order.inputs,
        samples=order.samples,
        seed=order.seed,
        grad=order.grad,
        accept=order.accept,
        listener=heard,
    )
    _no_bug_of_ours([found.internal_error] if found.internal_error else [])
    for skipped in found.outcome.skipped:
        heard.say(f"{skipped.target} did not run: {skipped.reason}")
    for line in found.notes:
        heard.say(line)
    judged = Counter(str(row.verdict.judgement) for row in found.results)
    told = ", ".join(f"{count} {verdict}" for verdict, count in judged.items()) or "no target ran"
    if found.failed:
        return 1, f"{told}."
    return (0, f"{told}.") if found.compared else (NOTHING_COMPARED, f"{told}: nothing was compared.")


def _no_bug_of_ours(errors: Sequence[str]) -> None:
    if errors:
        raise InternalError(errors[0])


def work(record: JobRecord, store: Path, folder: Path) -> int:
    """Do all of it, and write down how it ended; the exit code."""
    with ProgressWriter(folder, records.load_progress(folder)) as heard:
        listen(heard.say)
        code, outcome = _outcome(record, store, folder, heard)
        heard.end(code, outcome)
    return code


def _outcome(record: JobRecord, store: Path, folder: Path, heard: ProgressWriter) -> tuple[int, str]:
    try:
        library = load_causes(record.causes)
        with Workbench(store, plugins=record.plugins, jobs=record.order.jobs, library=library) as bench:
            return do(record, bench, folder, heard)
    except KeyboardInterrupt:
        return records.INTERRUPTED, "Stopped. What was found is in the store."
    except DriftlineError as error:
        return error.exit_code, str(error)
    except Exception as error:
        print(str(error) if isinstance(error, InternalError) else traceback.format_exc(), file=sys.stderr)
        return InternalError.exit_code, "This is a bug in Driftline, not in a compiler. The log says more."
