"""Options that decide what counts: what is accepted, what fails the run, what is known already."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from driftline.core.errors import NOTHING_COMPARED, DriftlineError, InternalError
from driftline.core.text import did_you_mean
from driftline.core.verdict import Judgement

if TYPE_CHECKING:
    from driftline.checking.result import CheckResult
    from driftline.core.target import Target

F = TypeVar("F", bound=Callable[..., Any])
COUNTABLE = (Judgement.FAIL, Judgement.INCONCLUSIVE, Judgement.REJECTED, Judgement.REDUCED)


def accept_option(function: F) -> F:
    return click.option(
        "--accept",
        "accept",
        multiple=True,
        metavar="[TARGET=]POLICY",
        help="Arithmetic that is good enough for you, for all targets or for one; may be repeated. Policies:"
        " half-accumulation, tf32, double-as-single, flush-to-zero, requantise, requantise-2, fast-exp;"
        " reduced-precision accepts them all; none accepts nothing, whatever driftline.toml says.",
    )(function)


def fail_on_option(function: F) -> F:
    return click.option(
        "--fail-on",
        "fail_on",
        metavar="V1,V2",
        help="Verdicts for which the exit code is 1: fail, inconclusive, rejected, reduced-precision.  [default: fail]",
    )(function)


def baseline_option(function: F) -> F:
    return click.option(
        "--baseline",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The --json output of an earlier run: what failed there in the same way does not count for the exit code.",
    )(function)


def parse_fail_on(given: str | Iterable[str], said_by: str = "--fail-on") -> tuple[Judgement, ...]:
    names = given.split(",") if isinstance(given, str) else list(given)
    found = []
    for name in (name.strip() for name in names):
        if name not in COUNTABLE:
            known = ", ".join(COUNTABLE)
            raise DriftlineError(
                f"{said_by} {name}: there is no such verdict.{did_you_mean(name, map(str, COUNTABLE))} Known: {known}."
            )
        found.append(Judgement(name))
    return tuple(dict.fromkeys(found))


def exit_code(
    result: CheckResult, fail_on: Iterable[Judgement], known: Iterable[Target], wanted: Iterable[Target]
) -> int:
    """What a check says to the shell. `known`: targets whose row does not count; `wanted`: those asked for by name."""
    counting, excused = tuple(fail_on), set(known)
    if any(row.verdict.judgement in counting and row.target not in excused for row in result.results):
        return 1
    if result.internal_error:
        return InternalError.exit_code
    if {skipped.target for skipped in result.outcome.skipped} & set(wanted):
        return 4
    return 0 if result.compared else NOTHING_COMPARED
