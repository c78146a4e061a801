"""Prepares stored cases for a run.

A store may come from anybody. The plugins that it names are code: only those that the user gives in this run are
loaded. Archives that hold code are refused, as they are when given as files. A worker gets no more memory than this
machine has, whatever the store says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from driftline.core import strangers
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.plugins import approved
from driftline.core.program import SCHEDULE, SCRIPT
from driftline.execute.processors import free_memory
from driftline.programs.archive_scan import require_harmless
from driftline.store import Store


def case_to_run(store: Store, case_id: str, given: Sequence[str] = ()) -> Case:
    """Return a stored case with the user's plugins, and those in `given`, instead of the plugins that it names."""
    case = store.load_case(case_id)
    if case.program.form == SCHEDULE:
        raise DriftlineError(
            f"The case {case_id} is a schedule, which is reduced already; driftline schedules replay and export take"
            " its bug."
        )
    if case.program.form == SCRIPT:
        raise DriftlineError(
            f"The case {case_id} is a script that calls torch.compile itself; driftline replay, diagnose, bisect and"
            " export take its bug."
        )
    for program in (case.program, case.runs):
        if program.form == "source":
            strangers.admit()
        if program.form == "torch":
            require_harmless(program.path, program.name)
    own = approved(case.options.plugins, f"The case {case_id} of {store.path}")
    options = replace(
        case.options,
        plugins=tuple(dict.fromkeys([*own, *given])),
        memory_limit=min(case.options.memory_limit, max(free_memory(), CheckOptions().memory_limit)),
    )
    return replace(case, options=options)
