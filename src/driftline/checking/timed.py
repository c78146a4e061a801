"""Prepares programs of cases for timing: in the form that the target accepts, compiled in a process of its own."""

from __future__ import annotations

import contextlib

from driftline.backends import resolve
from driftline.checking.checker import Checker, TakenForm
from driftline.checking.kinds import worker_for_target
from driftline.checking.written import write_case
from driftline.core.case import Case
from driftline.core.target import Target
from driftline.core.text import first_line
from driftline.measure.contestant import Contestant, contestant


def baseline_of(target: Target) -> Target:
    """Return eager on the same device."""
    return Target("eager", None, (("device", target.device),) if target.device != "cpu" else ())


def contestant_of(
    checker: Checker, case: Case, target: Target, form: TakenForm, timeout: float, *, cold: bool = True
) -> contextlib.AbstractContextManager[Contestant]:
    """Hold the program of a case on a target ready for timing inside the block. `cold`: compilation is timed too."""
    backend = resolve(target)
    files = write_case(checker.pool.workspace, case, form.program)
    kind = worker_for_target(backend, target, case.options.plugins)
    told = backend.told(target.told)
    return contestant(checker.pool, kind, files, target.backend, told, timeout=timeout, cold=cold)


def why_unusable(tested: Contestant) -> str:
    """Return why a contestant could not be compiled or run, in one line, or an empty string if it could."""
    kept = tested.kept
    return first_line(kept.problem or str(kept.failure or ("" if tested.usable else kept.outcome)))
