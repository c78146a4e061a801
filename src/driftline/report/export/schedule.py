"""Export the script for a bug of a TVM schedule; it is run in a clean process before it is called valid."""

from __future__ import annotations

import signal

from driftline.core.verdict import Kind
from driftline.report.export.clean_run import CleanRun, run_clean
from driftline.report.export.script import Exported
from driftline.schedules.script import script_of
from driftline.schedules.trace import Trace
from driftline.store import Bug


def export_schedule(bug: Bug, trace: Trace) -> Exported:
    """Write the script of a schedule's bug, run it, and return it with whether it shows the bug."""
    kind, stage = bug.fingerprint.kind, bug.fingerprint.stage
    about = f"apache-tvm {bug.findings[0].execution.get('version', '')}: {bug.summary}"
    text = script_of(trace, kind=kind, stage=stage, about=about)
    ran = run_clean(text)
    shown = _shows(bug, ran)
    return Exported(text, bool(shown), shown or ran.ending, ran.errors)


def _shows(bug: Bug, ran: CleanRun) -> str:
    """Describe how the run shows the bug, or return an empty string if it does not."""
    evidence = bug.findings[0].evidence
    if bug.fingerprint.kind == Kind.CRASH:
        if ran.status is not None and ran.status < 0:
            return f"it dies of {signal.Signals(-ran.status).name}"
        return ""
    wanted = evidence.exception if bug.fingerprint.kind == Kind.ERROR else "AssertionError"
    return f"it ends with {wanted}" if ran.status == 1 and wanted in ran.errors else ""
