"""What the commands that explain a failure are given: a bug, a stored case, or a program that fails."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from driftline.campaign.session import check_program, require_target
from driftline.checking.checker import Checker, Progress
from driftline.checking.open import open_program
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.store import Bug, Finding, Store

_CASE_ID = re.compile(r"[0-9a-f]{16}")
_PROGRAMS = (".onnx", ".pt2")


@dataclass(frozen=True)
class Failing:
    """A bug, with the sighting and the case that are looked at."""

    bug: Bug
    finding: Finding
    case: Case  # with one target

    @property
    def target(self) -> Target:
        return self.case.targets[0]


def require_one_program(case: Case, what: str) -> None:
    """Refuse a case that holds a file against another program: `what` works on one program."""
    if case.deployed:
        raise DriftlineError(
            f"{what} works on one program, and this case holds {case.runs.name} against {case.program.name}."
            f" See where they part: driftline check {case.runs.name} --reference {case.program.name} --layers"
        )


def is_program(name: str) -> bool:
    return ".py:" in name or Path(name).suffix in _PROGRAMS


def find_failing(
    name: str,
    store: Store,
    checker: Checker,
    *,
    target: Target | None = None,
    inputs: str = "example",
    options: CheckOptions | None = None,
    progress: Progress = lambda target, result: None,
) -> Failing:
    """The failure that `name` stands for: a bug or a case of the store, or a program, which is checked first.

    A stored failure brings its own options and plugins; a plugin in `options` takes the place of a stored one of the
    same file name that is not there any more. `progress` is that of the check.
    """
    if is_program(name):
        return _checked(name, store, checker, target, inputs, options or CheckOptions(), progress)
    bug = _bug_of_case(store, name) if _CASE_ID.fullmatch(name) else store.bug(name)
    finding = next((f for f in bug.findings if f.case_id == name), bug.findings[0])
    case = _with_plugins(store.load_case(finding.case_id), options.plugins if options else ())
    load_plugins(case.options.plugins)
    wanted = target or Target.parse(finding.target)
    require_target(wanted)
    return Failing(bug, finding, case.only(wanted))


def _with_plugins(case: Case, given: Sequence[str]) -> Case:
    """The case with the plugins that are given in the place of those that have moved."""
    moved = {Path(path).name: path for path in given}
    own = [path if Path(path).is_file() else moved.get(Path(path).name, path) for path in case.options.plugins]
    return replace(case, options=replace(case.options, plugins=tuple(dict.fromkeys([*own, *given]))))


def _bug_of_case(store: Store, case_id: str) -> Bug:
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
    options: CheckOptions,
    progress: Progress,
) -> Failing:
    opened = open_program(name, checker.pool, options)
    targets = [target] if target else None
    result = check_program(checker, store, opened, targets=targets, inputs=inputs, options=options, progress=progress)
    if not result.bugs:
        told = "; ".join(f"{row.target}: {row.verdict.judgement} ({row.verdict.reason})" for row in result.results)
        raise DriftlineError(f"{name} does not fail: {told or 'no target could run it'}. There is nothing to explain.")
    if len(result.bugs) > 1:
        failing = ", ".join(str(found) for found in result.bugs)
        raise DriftlineError(f"{name} fails on {failing}; choose one of them with --target.")
    ((wanted, bug),) = result.bugs.items()
    case_id = store.save_case(replace(result.outcome.case, targets=(wanted,)))
    finding = next((f for f in bug.findings if f.case_id == case_id), bug.findings[-1])
    return Failing(bug, finding, store.load_case(finding.case_id).only(wanted))
