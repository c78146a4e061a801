"""The subject of the commands that explain a failure: a bug, a stored case, or a program that fails."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from driftline.campaign.check.session import check_program, require_target
from driftline.campaign.check.stored import case_to_run
from driftline.checking.checker import Checker
from driftline.checking.open import MODEL, open_program
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.program import SCRIPT
from driftline.core.target import Target
from driftline.core.verdict import COSTS
from driftline.events import Listener, ignore
from driftline.inputs.sizes import NOT_GIVEN, Sizes
from driftline.scenarios.keeping import is_script_bug
from driftline.scenarios.target import require_script_target
from driftline.store import Bug, Finding, Store

_CASE_ID = re.compile(r"[0-9a-f]{16}")
_PROGRAMS = (".onnx", ".pt2", ".pt")


@dataclass(frozen=True)
class Failing:
    """A bug, with the sighting and the case that are examined."""

    bug: Bug
    finding: Finding
    case: Case  # with one target

    @property
    def target(self) -> Target:
        return self.case.targets[0]


def require_one_program(case: Case, what: str) -> None:
    """Raise DriftlineError for a case that compares two programs. `what`: the command, which works on one program."""
    if case.deployed:
        raise DriftlineError(
            f"{what} works on one program, and this case holds {case.runs.name} against {case.program.name}."
            f" See where they part: driftline check {case.runs.name} --reference {case.program.name} --layers"
        )


def require_program(case: Case, what: str) -> None:
    """Raise DriftlineError for a script that calls the compiler itself. `what`: the command, which works on programs
    that Driftline compiles."""
    if case.program.form == SCRIPT:
        raise DriftlineError(
            f"{what} works on a program that Driftline compiles, and {case.program.name} is a script that calls"
            " torch.compile itself; driftline diagnose, bisect, replay and export take its bug."
        )


def about_cost(store: Store, name: str) -> bool:
    """True if `name` is a cost bug: its results are right, but too expensive."""
    if is_program(name) or _CASE_ID.fullmatch(name):
        return False
    return store.bug(name).fingerprint.kind in COSTS


def require_wrong(bug: Bug) -> None:
    """Raise DriftlineError for a cost bug: its results are right, so there is no wrong result to explain."""
    if bug.fingerprint.kind in COSTS:
        raise DriftlineError(
            f"{bug.id} is about cost ({bug.fingerprint.kind}), and its results are right, so there is no wrong result"
            f" to explain. driftline diagnose {bug.id} finds what makes it slow; driftline replay {bug.id} measures it"
            " again."
        )


def is_program(name: str) -> bool:
    """True if `name` is a program or a model, and not the name of a bug or a case."""
    return name.startswith(MODEL) or ".py:" in name or Path(name).suffix in _PROGRAMS


def find_failing(
    name: str,
    store: Store,
    checker: Checker,
    *,
    target: Target | None = None,
    inputs: str = "example",
    sizes: Sizes = NOT_GIVEN,
    options: CheckOptions | None = None,
    costs: bool = False,
    scripts: bool = False,
    listener: Listener = ignore,
) -> Failing:
    """Return the failure that `name` stands for: a bug, a stored case, or a program, which is checked first. With
    `costs` it may be a cost bug, with `scripts` the bug of a script that calls the compiler itself.

    A stored failure brings its own options. The plugins that it names must have been given in this run, from the same
    path or another (`case_to_run`). `listener` receives the events of the check.
    """
    if is_program(name):
        return _checked(name, store, checker, target, inputs, sizes, options or CheckOptions(), listener)
    if sizes:
        raise DriftlineError(f"--dim and --shape say how large the inputs of a program are; {name} has its inputs.")
    bug = find_bug_of_case(store, name) if _CASE_ID.fullmatch(name) else store.bug(name)
    if not costs:
        require_wrong(bug)
    finding = next((f for f in bug.findings if f.case_id == name), bug.findings[0])
    wanted = target or Target.parse(finding.target)
    if scripts and is_script_bug(store, bug):
        require_script_target(wanted)
        return Failing(bug, finding, store.load_case(finding.case_id).only(wanted))
    case = case_to_run(store, finding.case_id, options.plugins if options else ())
    require_target(wanted)
    return Failing(bug, finding, case.only(wanted))


def find_bug_of_case(store: Store, case_id: str) -> Bug:
    """Return the bug that a stored case shows. Raises DriftlineError if there is none."""
    rows = store.query("SELECT bug FROM findings WHERE case_id = ?", (case_id,))
    if not rows:
        raise DriftlineError(f"There is no finding with the case {case_id} in the store {store.path}.")
    return store.bug(rows[0][0])


def _checked(
    name: str,
    store: Store,
    checker: Checker,
    target: Target | None,
    inputs: str,
    sizes: Sizes,
    options: CheckOptions,
    listener: Listener,
) -> Failing:
    opened = open_program(name, checker.pool, options, sizes)
    targets = [target] if target else None
    result = check_program(
        checker, store, opened, targets=targets, inputs=inputs, sizes=sizes, options=options, listener=listener
    )
    if not result.bugs:
        told = "; ".join(f"{row.target}: {row.verdict.judgement} ({row.verdict.reason})" for row in result.results)
        raise DriftlineError(f"{name} does not fail: {told or 'no target could run it'}. There is nothing to explain.")
    if len(result.bugs) > 1:
        failing = ", ".join(str(found) for found in result.bugs)
        raise DriftlineError(f"{name} fails on {failing}; choose one of them with --target.")
    ((wanted, bug),) = result.bugs.items()
    case_id = store.save_case(replace(result.outcome.case, targets=(wanted,)))
    finding = next((f for f in bug.findings if f.case_id == case_id), bug.findings[-1])
    return Failing(bug, finding, case_to_run(store, finding.case_id).only(wanted))
