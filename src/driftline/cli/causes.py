"""`driftline causes`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.cause_options import causes_option, library_of
from driftline.cli.common import Ticker, json_option, print_json
from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean

if TYPE_CHECKING:
    from driftline.causes import Cause, Library
    from driftline.causes.examined import ExaminedCause


@click.group()
def causes() -> None:
    """Why compilers fail: tested hypotheses, each a small file with a program that shows it.

    A cause is named with every bug that it explains, and bugs of one cause stand together in lists and reports. It
    decides neither which bug a failure is nor whether it counts. How to write one: docs/how-to/causes.md.
    """


@causes.command("list")
@click.option("--compiler", metavar="NAME", help="Only the causes of one compiler.")
@click.option("--debatable/--plain", default=None, help="Only those that are debatable; or only those that are not.")
@click.option("--reported/--unreported", default=None, help="Only those that are reported upstream; or that are not.")
@causes_option
@json_option
def list_causes(
    compiler: str | None, debatable: bool | None, reported: bool | None, folders: tuple[Path, ...], as_json: bool
) -> None:
    """List all causes."""
    library = library_of(folders)
    found = [
        cause
        for cause in _of_compiler(library, compiler)
        if debatable in (None, bool(cause.debatable)) and reported in (None, bool(cause.reported))
    ]
    if as_json:
        print_json({"schema": 1, "causes": [cause.to_json() for cause in found]})
        return
    from driftline.report.causes import show_causes

    show_causes(found)


def _of_compiler(library: Library, compiler: str | None) -> list[Cause]:
    if compiler is None:
        return list(library)
    known = sorted({cause.compiler for cause in library})
    if compiler not in known:
        raise DriftlineError(
            f"No cause is about {compiler!r}.{did_you_mean(compiler, known)} There are causes of: {', '.join(known)}."
        )
    return [cause for cause in library if cause.compiler == compiler]


@causes.command("show")
@click.argument("cause")
@causes_option
@json_option
def show(cause: str, folders: tuple[Path, ...], as_json: bool) -> None:
    """Show one cause: what it explains, the program that shows it, and the one that must not be taken for it."""
    found = library_of(folders).get(cause)
    if as_json:
        print_json({"schema": 1, "cause": found.to_json()})
        return
    from driftline.report.causes import show_cause

    show_cause(found)


@causes.command("check")
@click.argument("wanted", nargs=-1, metavar="[CAUSE]...")
@click.option("--compiler", metavar="NAME", help="Only the causes of one compiler.")
@causes_option
@json_option
def check(wanted: tuple[str, ...], compiler: str | None, folders: tuple[Path, ...], as_json: bool) -> int:
    """Run the witness and the neighbour of causes on what is installed.

    The witness must fail and be explained by this cause alone; the neighbour must fail and not be explained by it. A
    cause whose witness passes is due for removal. Causes whose compiler or processor is not here are skipped.

    \b
      driftline causes check                             all of them: some minutes
      driftline causes check openvino/integers-narrowed
      driftline causes check --causes team/causes        yours too

    Exit codes: 0 all hold, 1 one is due for removal or wrong, 5 all were skipped; 2 and 3 as everywhere.
    """
    library = library_of(folders)
    if wanted and compiler:
        raise DriftlineError("Name causes or a --compiler, not both.")
    chosen = [library.get(name) for name in wanted] if wanted else _of_compiler(library, compiler)
    done = _examine(chosen, library)
    if as_json:
        counts = {state: sum(one.state == state for one in done) for state in ("holds", "due", "wrong", "skipped")}
        print_json({"schema": 1, "checked": [one.to_json() for one in done], "counts": counts})
    else:
        from driftline.report.causes import show_examined

        show_examined(done)
    if any(one.state in ("due", "wrong") for one in done):
        return 1
    return 0 if not done or any(one.state == "holds" for one in done) else 5


def _examine(chosen: Sequence[Cause], library: Library) -> list[ExaminedCause]:
    from driftline.campaign.check.witnesses import check_causes
    from driftline.checking.checker import Checker
    from driftline.execute.pool import Pool

    done: list[ExaminedCause] = []
    with Pool() as pool, Ticker("Checking causes", len(chosen)) as ticker:
        for one in check_causes(Checker(pool), chosen, library, lambda cause: ticker.started(cause.id)):
            done.append(one)
            ticker.finished(one.cause.id, str(one.state) + (f": {one.reason}" if one.reason else ""))
    return done
