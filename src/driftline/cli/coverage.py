"""`driftline coverage`."""

from __future__ import annotations

from pathlib import Path

import click

from driftline.cli.common import json_option, note, print_json, store_option
from driftline.core.errors import NOTHING_COMPARED, DriftlineError


@click.command()
@store_option
@click.option("--compilers", metavar="C1,C2", help="Compilers to report on; default: all that the store knows.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE.html", help="Also write a page with a map of all operators."
)
@click.option(
    "--fail-under",
    "fail_under",
    multiple=True,
    metavar="[[COMPILER:]LEVEL=]PERCENT",
    help="Exit with 1 where less is covered: 60, operator=80 or onnxruntime:pass=30; may be repeated.",
)
@json_option
def coverage(store: Path, compilers: str | None, out: Path | None, fail_under: tuple[str, ...], as_json: bool) -> int:
    """Show what of each compiler was exercised by a store, what was not, and which command would cover it.

    \b
      driftline coverage                                  every compiler of the store, level by level
      driftline coverage --compilers onnxruntime          one of them, with its dtypes
      driftline coverage --out coverage.html              a map of operators and dtypes: never run, passes, fails
      driftline coverage --fail-under operator=80 --fail-under inductor:pass=30      for continuous integration

    The levels are those of a test pyramid. construction: an operator in a dtype was given to the compiler. pass: a
    rewrite rule, pass or schedule primitive was at work. operator: results of an operator in a dtype were compared
    with the reference. model: a model of `driftline models list` was checked. What a compiler declines as not
    supported, and rules that cannot fire on this machine, do not count.

    Exit codes: 0, 1 if a level is below --fail-under, 5 if the store has no hunt, audit or check of these compilers.
    """
    from driftline.core.output_place import require_place
    from driftline.coverage import coverage_of
    from driftline.coverage.page import coverage_page
    from driftline.coverage.text import coverage_json, show
    from driftline.coverage.thresholds import parse_thresholds, too_little
    from driftline.report.formats import write
    from driftline.store import Store

    thresholds = parse_thresholds(fail_under)
    if out is not None:
        if out.suffix not in (".html", ".htm"):
            raise DriftlineError(f"--out {out}: the map is a page; name a file that ends with .html.")
        require_place(out, "coverage.html")
    chosen = [name.strip() for name in compilers.split(",") if name.strip()] if compilers is not None else None
    if chosen is not None and not chosen:
        raise DriftlineError("--compilers names none; leave it out to see all.")
    with Store.open(store) as kept:
        found = coverage_of(kept, chosen)
    empty = not any(one.exercised for one in found.compilers)
    below = too_little(found, thresholds) if found.compilers else []
    if as_json:
        print_json(coverage_json(found, thresholds, below))
    elif empty:
        note(f"Nothing was exercised in {store} yet: driftline hunt, check and patterns audit fill it.")
    else:
        show(found, below)
    if out is not None:
        write(out, coverage_page(found))
        note(f"Written to {out}.")
    return NOTHING_COMPARED if empty else 1 if below else 0
