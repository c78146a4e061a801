"""Runs the witness and the neighbour of each cause on the installed compilers, to test whether the cause still
holds."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import driftline
from driftline.backends import resolve
from driftline.campaign.check.annotation import examined
from driftline.causes import Cause, Library, mismatch
from driftline.causes.examined import ExaminedCause, State
from driftline.causes.match import is_before
from driftline.causes.sighting import machine_name
from driftline.checking.aspects import FIRST_CALL, Extent
from driftline.checking.checker import Checker, TargetResult
from driftline.checking.open import open_source
from driftline.checking.precision import reviewed
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.core.verdict import Judgement
from driftline.execute.environments import find_environment

FAILURES = (Judgement.FAIL, Judgement.REDUCED)
PLANTS = str(Path(driftline.__file__).with_name("testing") / "plants.py")  # the plugin that plants faults


def check_causes(
    checker: Checker,
    causes: Iterable[Cause],
    library: Library,
    started: Callable[[Cause], None] = lambda cause: None,
) -> Iterator[ExaminedCause]:
    """Run the witness and the neighbour of each cause, and yield the results."""
    for cause in causes:
        started(cause)
        yield check_cause(checker, cause, library)


def check_cause(checker: Checker, cause: Cause, library: Library) -> ExaminedCause:
    """Examine one cause. No other cause in `library` may explain the witness."""
    try:
        target = Target.parse(cause.witness.target)
        missing = why_missing(cause, target)
        if missing:
            return ExaminedCause(cause, State.SKIPPED, missing)
        found = _witness(checker, cause, library, target)
        if found.state is not State.HOLDS or cause.neighbour is None or found.reason:
            return found
        return _neighbour(checker, cause, found)
    except DriftlineError as error:
        return ExaminedCause(cause, State.WRONG, str(error))


def _witness(checker: Checker, cause: Cause, library: Library, target: Target) -> ExaminedCause:
    case, result = run_program(checker, cause, cause.witness.program, f"witness of {cause.id}", target)
    found = ExaminedCause(cause, State.HOLDS, version=result.execution.version, witness=result.verdict.reason)
    if cause.fixed and not target.version and not is_before(found.version, cause.fixed):
        return _stays_fixed(found, result)
    if result.verdict.judgement is Judgement.PASS:
        told = (
            f"its witness passes on {target} {result.execution.version}: remove it, or say in which release it is fixed"
        )
        return replace(found, state=State.DUE, reason=told)
    if result.verdict.judgement not in FAILURES or result.flaky:
        told = (
            f"flaky, {result.failed_runs[0]} of {result.failed_runs[1]}" if result.flaky else result.verdict.judgement
        )
        return replace(found, state=State.WRONG, reason=f"its witness is {told}: {result.verdict.reason}")
    seen = examined(checker, case, result, library)
    if why := mismatch(cause, seen):
        return replace(found, state=State.WRONG, reason=f"it does not explain its own witness: {why}")
    others = [one.id for one in library.explaining(seen) if one.id != cause.id]
    if others:
        return replace(found, state=State.WRONG, reason=f"its witness is explained by {', '.join(others)} too")
    return found


def _stays_fixed(found: ExaminedCause, result: TargetResult) -> ExaminedCause:
    """Return the result for a cause that is fixed in this release: its witness must pass."""
    told = f"fixed in {found.cause.fixed}"
    if result.verdict.judgement is Judgement.PASS:
        return replace(found, reason=f"{told}: its witness passes")
    return replace(found, state=State.WRONG, reason=f"{told}, and its witness fails: {result.verdict.reason}")


def _neighbour(checker: Checker, cause: Cause, found: ExaminedCause) -> ExaminedCause:
    beside = cause.neighbour
    assert beside
    target = Target.parse(beside.target)
    if beside.plant:
        load_plugins([PLANTS])
        target = replace(target, options=(*target.options, ("plant", beside.plant)))
    plugins = (PLANTS,) if beside.plant else ()
    case, result = run_program(checker, cause, beside.program, f"neighbour of {cause.id}", target, plugins)
    found = replace(found, neighbour=result.verdict.reason)
    if result.verdict.judgement not in FAILURES:
        told = f"its neighbour is {result.verdict.judgement}, and should fail: {result.verdict.reason}"
        return replace(found, state=State.WRONG, reason=told)
    seen = examined(checker, case, result, Library((cause,)))
    if mismatch(cause, seen):
        return found
    return replace(found, state=State.WRONG, reason=f"it explains its neighbour too: {result.verdict.reason}")


def run_program(
    checker: Checker, cause: Cause, text: str, name: str, target: Target, plugins: tuple[str, ...] = (), **beside: str
) -> tuple[Case, TargetResult]:
    """Check a program under the conditions of a cause. `beside`: the texts of modules that the program imports, by
    name."""
    options = CheckOptions(plugins=plugins)
    resolve(target)
    file = f"{name.partition(' ')[0]}.py"
    files = {file: text, **{f"{module}.py": other for module, other in beside.items()}}
    opened = open_source(SourceBundle(file, "program", files), checker.pool, options, name=name)
    case = Case(opened.program, (Inputs(opened.example, "example"),), (target,), options)
    # Only a cause of less precise arithmetic asks which arithmetic explains a row; the others judge strictly.
    extent = Extent(calls=2) if cause.later_call else FIRST_CALL
    if cause.policies:
        outcome = checker.check(case, review=partial(reviewed, checker), extent=extent)
    else:
        outcome = checker.check(case, extent=extent)
    if not outcome.results:
        raise DriftlineError(f"{target}: {outcome.skipped[0].reason}")
    (result,) = outcome.results
    if result.internal_error:
        raise DriftlineError(
            f"its {name.partition(' ')[0]} made Driftline itself fail: {result.internal_error.splitlines()[-1]}"
        )
    return result.seen_in.case if result.seen_in else case, result


def why_missing(cause: Cause, target: Target) -> str:
    """Return why the witness cannot run here, or an empty string if it can."""
    here = machine_name(platform.machine())
    if cause.machines and here not in cause.machines:
        return f"it is a cause on {', '.join(cause.machines)}; this machine is {here}"
    backend = resolve(target)
    if target.version:
        if find_environment(backend.packages, target.version) is None:
            return f"no environment: driftline env add {backend.packages[0]}=={target.version}"
        return ""
    present = backend.installed()
    if present.available and target.device != "cpu" and not Path("/dev/nvidia0").exists():
        return f"no {target.device} device here"
    return "" if present.available else present.reason
