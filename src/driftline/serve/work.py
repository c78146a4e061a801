"""Runs a job in its own process (`child.py`), through the same calls as the commands (`workbench/`).

An interrupt ends it as Ctrl-C ends a command: what was found is in the store, and the job can be resumed.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from driftline.campaign.hunt.settings import HuntSettings
from driftline.causes import load as load_causes
from driftline.core.errors import NOTHING_COMPARED, DriftlineError, InternalError
from driftline.core.notices import listen
from driftline.core.private import reading
from driftline.core.text import plural
from driftline.events import Working
from driftline.report.annotated import accepted_among
from driftline.serve import records
from driftline.serve.orders import AuditOrder, CheckOrder, DiagnosisOrder, HuntOrder
from driftline.serve.progress_writer import ProgressWriter
from driftline.serve.records import JobProgress, JobRecord
from driftline.store.audits import AuditLog
from driftline.store.hunts import HuntLog
from driftline.workbench import Workbench


def do(record: JobRecord, bench: Workbench, folder: Path, heard: ProgressWriter) -> tuple[int, str]:
    """Carry out the job's order. Returns the exit code of the equivalent command, and a sentence about the result."""
    order = record.order
    if isinstance(order, HuntOrder):
        return _hunt(order, bench, heard)
    if isinstance(order, AuditOrder):
        return _audit(order, bench, heard)
    if isinstance(order, DiagnosisOrder):
        return _diagnose(order, bench, heard)
    return _check(order, bench, folder, heard)


def _hunt(order: HuntOrder, bench: Workbench, heard: ProgressWriter) -> tuple[int, str]:
    if number := number_to_resume(HuntLog(bench.store), heard.progress):
        asked = HuntSettings(resume=True, number=number, diagnose=order.diagnose)
    else:
        asked = HuntSettings(
            seconds=order.seconds,
            targets=[order.targets] if order.targets else None,
            generators=order.generators or None,
            seed=order.seed,
            accept=order.accept,
            diagnose=order.diagnose,
        )
    found = bench.hunt(asked=asked, listener=heard)
    _say_own_faults(heard, found.internal_errors)
    tested = f"{plural(sum(found.programs.values()), 'program')} on {plural(len(found.programs), 'compiler')}"
    if set(found.bugs) - accepted_among(found.bugs.values()):
        return 1, f"{tested}: {plural(len(found.bugs), 'bug')}, {len(found.new)} of them new."
    if not found.judged and not found.bugs:
        return NOTHING_COMPARED, f"{tested}: nothing was compared. Give it more time, or other targets."
    return 0, f"{tested}: no bug."


def number_to_resume(log: HuntLog | AuditLog, progress: JobProgress) -> int:
    """The number that the job's hunt or audit has now, or 0 if it did not begin. A merge may have given it another."""
    number = log.number_of(progress.run) if progress.run else progress.number
    if progress.run and not number:
        raise DriftlineError("What this job began is not in the store any more; start it again.")
    return number


def _audit(order: AuditOrder, bench: Workbench, heard: ProgressWriter) -> tuple[int, str]:
    if number := number_to_resume(AuditLog(bench.store), heard.progress):
        found = bench.audit(resume=True, number=number, listener=heard)
    else:
        found = bench.audit(
            seconds=order.seconds,
            compilers=[name.strip() for name in order.compilers.split(",")] if order.compilers else None,
            only=order.only,
            seed=order.seed,
            listener=heard,
        )
    _say_own_faults(heard, found.internal_errors)
    rules = sum(len(one.rules) for one in found.compilers.values())
    return (1 if found.bugs else 0), f"{plural(rules, 'rule')} audited: {plural(len(found.bugs), 'bug')}."


def _diagnose(order: DiagnosisOrder, bench: Workbench, heard: ProgressWriter) -> tuple[int, str]:
    heard(Working(order.bug, "starting"))
    found = bench.diagnose(order.bug, seconds=order.seconds, listener=heard)
    _say_own_faults(heard, found.internal_errors)
    for line in found.to_json()["summary"]:
        heard.say(line)
    return 1, f"{order.bug} is explained as far as the time allowed; its page shows it."


def _check(order: CheckOrder, bench: Workbench, folder: Path, heard: ProgressWriter) -> tuple[int, str]:
    heard(Working(order.shown, "opening it"))
    _require_plain(folder / order.file)
    found = bench.check(
        order.program(folder),
        targets=[order.targets] if order.targets else None,
        inputs=order.inputs,
        samples=order.samples,
        seed=order.seed,
        grad=order.grad,
        calls=order.calls,
        accept=order.accept,
        listener=heard,
    )
    if found.internal_error:
        raise InternalError(found.internal_error)
    for skipped in found.outcome.skipped:
        heard.say(f"{skipped.target} did not run: {skipped.reason}")
    for line in found.notes:
        heard.say(line)
    judged = Counter(str(row.verdict.judgement) for row in found.results)
    told = ", ".join(f"{count} {verdict}" for verdict, count in judged.items()) or "no target ran"
    if found.failed:
        return 1, f"{told}."
    return (0, f"{told}.") if found.compared else (NOTHING_COMPARED, f"{told}: nothing was compared.")


def _require_plain(path: Path) -> None:
    """Refuse a job's program that is a symbolic link: the store may be someone else's, and the link may lead
    anywhere."""
    try:
        with reading(path):
            pass
    except OSError as error:
        raise DriftlineError(f"{path} cannot be read: {error.strerror}. Upload the program again.") from error


def _say_own_faults(heard: ProgressWriter, faults: Sequence[str]) -> None:
    """Add a line to the job's log where programs could not be judged because of a bug in Driftline."""
    if faults:
        last = faults[0].strip().splitlines()[-1]
        heard.say(f"{plural(len(faults), 'program')} could not be judged because of a bug in Driftline: {last}")


def work(record: JobRecord, store: Path, folder: Path) -> int:
    """Run a job, record how it ended, and return the exit code."""
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
