"""`driftline tour`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.common import json_option, note, print_json
from driftline.core.errors import NOTHING_COMPARED, DriftlineError
from driftline.core.text import did_you_mean

if TYPE_CHECKING:
    from driftline.tour.steps import TourStep


@click.command()
@click.option("--fast", is_flag=True, help="Wait for no key, search less long, download nothing: about a minute.")
@click.option("--steps", metavar="S1,S2", help="Take only these steps; find is always taken.")
@click.option("--skip", metavar="S1,S2", help="Leave these steps out.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("driftline-tour"),
    show_default=True,
    help="Folder for the program, the store and the issue text.",
)
@json_option
def tour(fast: bool, steps: str | None, skip: str | None, out: Path, as_json: bool) -> int:
    """A guided demo: a real miscompile is found, told from rounding, shrunk, blamed, bisected and written up.

    \b
      driftline tour                        about ten minutes; a key leads to each step
      driftline tour --fast                 about a minute, without a key or a download
      driftline tour --skip bisect,export

    The steps are find, judge, shrink, blame, bisect and export. Everything is real: the compilers installed here, a bug
    of a released compiler, and the commands that you would type, which are shown. On a terminal it waits before each
    step: Enter goes on, s skips, q ends. Nothing is sent anywhere; the step bisect downloads one older release.

    Exit codes: 0 shown, 5 no bug of the tour shows on this machine, 130 interrupted; 2 and 3 as everywhere.
    """
    from driftline.checking.checker import Checker
    from driftline.core.output_place import make_folder
    from driftline.execute.pool import Pool
    from driftline.report.screen import console
    from driftline.store import Store
    from driftline.tour.guide import DONE, go_on, guide
    from driftline.tour.steps import STEPS, Tour

    names = [step.name for step in STEPS]
    skipped = set(_named("--skip", skip, names))
    if "find" in skipped:
        raise DriftlineError("--skip find: the other steps are about what it finds; leave it in.")
    if steps is not None:
        skipped |= set(names) - {"find", *_named("--steps", steps, names)}
    make_folder(out)
    shown = None if as_json else console()
    if shown:
        shown.print(
            "Driftline runs programs on deep-learning compilers and says which of them is wrong. This is a tour of what"
            " it does\nwith a real bug of a released compiler, on the compilers that are installed here."
        )
    waits = not fast and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    with Store.create(out / "store") as store, Pool() as pool:
        state = Tour(Checker(pool), store, out, fast)
        records = guide(state, shown, skip=skipped, ask=_by_key if waits else go_on)
    if as_json:
        case = state.case.name if state.case else None
        print_json({"schema": 1, "folder": str(out), "case": case, "steps": [record.to_json() for record in records]})
    elif state.failing:
        if steps is None:
            onwards = (
                " Next: driftline hunt --budget 10m finds bugs by itself, driftline check takes your own model, and"
                " driftline --help lists the rest."
            )
        else:
            onwards = " driftline tour shows all steps."
        note(f"\nAll of it is in {out}.{onwards}")
    return NOTHING_COMPARED if records and records[0].state != DONE else 0


def _named(option: str, text: str | None, names: list[str]) -> list[str]:
    given = [name.strip() for name in (text or "").split(",") if name.strip()]
    for name in given:
        if name not in names:
            raise DriftlineError(
                f"{option} {name}: there is no such step.{did_you_mean(name, names)} They are {', '.join(names)}."
            )
    return given


def _by_key(step: TourStep) -> str:
    """Wait for a key before a step."""
    from driftline.tour.guide import GO, QUIT, SKIP

    click.echo("  Enter: go on   s: skip   q: end ", nl=False)
    while True:
        key = click.getchar().lower()
        if key in ("\r", "\n", " ", "s", "q"):
            click.echo()
            return {"s": SKIP, "q": QUIT}.get(key, GO)
