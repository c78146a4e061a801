"""Validates settings of a compiler itself that are given as options of a target, in a worker, before anything else is
done.

Only the compiler knows its settings and their types. A mistyped setting is a mistake of the command line, not a result,
and some compilers would ignore it.
"""

from __future__ import annotations

from collections.abc import Iterable

from driftline.backends import resolve
from driftline.checking.kinds import worker_for_target
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.core.text import first_line
from driftline.execute.messages import Ending
from driftline.execute.pool import Pool, WorkerStartError
from driftline.execute.requests import CHECK_SETTINGS, SettingsRequest

TIMEOUT = 120.0


def require_settings(pool: Pool, targets: Iterable[Target], plugins: tuple[str, ...] = ()) -> None:
    """Raise DriftlineError for targets with settings that their compilers do not have."""
    for target in targets:
        backend = resolve(target)
        own = backend.own_settings(dict(target.options))
        if not own:
            continue
        request = SettingsRequest(target.backend, own, plugins)
        try:
            report = pool.run(worker_for_target(backend, target, plugins), CHECK_SETTINGS, request, timeout=TIMEOUT)
        except WorkerStartError:
            continue  # one compiler that cannot start does not stop the others: its own row or lane reports it
        if report.answer and report.answer.problem:
            raise DriftlineError(f"Target {str(target)!r}: {report.answer.problem}")
        if report.answer is None and report.ending is Ending.DIED:  # some compilers end the process for a mistake
            said = next((line for line in report.log.splitlines() if any(name in line for name in own)), report.detail)
            raise DriftlineError(
                f"Target {str(target)!r}: its compiler ends the process when it is given these settings:"
                f" {first_line(said, 300)}"
            )
