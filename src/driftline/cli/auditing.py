"""What `driftline patterns audit` and `driftline passes test` share: progress, Ctrl-C, and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from driftline.cli.common import Activity, note, tell_failed
from driftline.core.closing import closing_step, exit_code_after
from driftline.core.quoting import shell

if TYPE_CHECKING:
    from driftline.events import Listener
    from driftline.patterns.audit import AuditResult


def run_audit(
    words: str,
    seconds: float,
    ask: Callable[[Listener], AuditResult],
    show: Callable[[AuditResult], None],
    resume: Sequence[object],
) -> int:
    """Run it under a progress display that says `words`, and show what came out. `resume` is the command that goes on
    with it after Ctrl-C."""
    from driftline.cli import report_own_faults

    try:
        with Activity(words, seconds) as activity:
            result = ask(activity)
    except KeyboardInterrupt:
        note(f"driftline: interrupted; everything so far is kept. {activity.so_far()} Go on with: {shell(resume)}")
        return 130
    with closing_step(result.failed_steps, "showing what was found", "driftline report shows what the store holds"):
        show(result)
    tell_failed(result.failed_steps)
    report_own_faults(result.internal_errors)
    return exit_code_after(result.failed_steps, 1 if result.bugs else 0)
