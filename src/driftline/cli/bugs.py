"""`driftline bugs`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from driftline.cli.cause_options import causes_option, library_of
from driftline.cli.common import json_option, note, print_json, store_option
from driftline.cli.completing import complete_bugs
from driftline.cli.filled import filled
from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean
from driftline.core.times import parse_since
from driftline.core.verdict import Status

LISTED = 100  # bugs on a screen, unless more are asked for


@click.group()
def bugs() -> None:
    """Browse what was found: list all bugs, show one, or say where it stands."""


@dataclass(frozen=True)
class _ListOptions:
    """The options of `driftline bugs list` that choose bugs."""

    compiler: str
    kind: str
    status: str | None
    since: str
    limit: int | None


@bugs.command("list")
@click.option("--compiler", metavar="NAME", default="", help="Only bugs of this backend or converter.")
@click.option("--kind", metavar="KIND", default="", help="Only bugs of this kind, such as wrong-value or crash.")
@click.option("--status", type=click.Choice([str(status) for status in Status]), help="Only bugs with this status.")
@click.option("--since", metavar="TIME", default="", help="Only bugs first seen since 2026-01-31, or 2h or 7d ago.")
@click.option("--limit", type=click.IntRange(0), help="Bugs to show, 0: all.  [default: 100; with --json: all]")
@store_option
@causes_option
@json_option
@filled(_ListOptions)
def list_bugs(asked: _ListOptions, store: Path, folders: tuple[Path, ...], as_json: bool) -> None:
    """List bugs, the most serious first: those of one cause together, and which of them look alike.

    \b
      driftline bugs list --compiler inductor --kind wrong-value
      driftline bugs list --status new --since 2h
    """
    from driftline.report.alike import alike
    from driftline.report.results import SCHEMA, bug_json
    from driftline.store import Store, listing, sound_bugs

    library = library_of(folders)
    since = parse_since(asked.since) if asked.since else ""
    wanted = listing.BugFilter(asked.compiler, asked.kind, asked.status or "", since)
    with Store.open(store) as kept:
        for given, field in ((asked.compiler, "backend"), (asked.kind, "kind")):
            if given and given not in (known := listing.kinds_of(kept, field)):
                name = "compiler" if field == "backend" else "kind"
                has = ", ".join(known) or "no bugs"
                raise DriftlineError(f"--{name} {given}: no bug has it.{did_you_mean(given, known)} There are: {has}.")
        most = asked.limit if asked.limit is not None else -1 if as_json else LISTED
        total = listing.count_bugs(kept, wanted)
        shown = listing.list_bugs(kept, wanted, most=most or -1)
        like = alike(kept.bugs())
        if as_json:
            whole = sound_bugs(kept, [bug.id for bug in shown])
            found = [{**bug_json(bug, store, library), "like": like.get(bug.id)} for bug in whole]
            print_json({"schema": SCHEMA, "bugs": found, "total": total})
            return
    from driftline.report.bug_list import show_bugs

    show_bugs(shown, store, library, total=total, like=like)
    for gap in kept.gaps:
        note(f"driftline: {gap}")


@bugs.command("show")
@click.argument("bug", shell_complete=complete_bugs)
@store_option
@causes_option
@json_option
def show(bug: str, store: Path, folders: tuple[Path, ...], as_json: bool) -> None:
    """Show one bug: program, inputs, evidence, log, what explains it, and the commands that replay it and explain more.

    A unique prefix of its name is enough.
    """
    from driftline.report.explained import explained_so_far
    from driftline.report.results import SCHEMA, bug_json
    from driftline.store import Store

    library = library_of(folders)
    with Store.open(store) as kept:
        found = kept.bug(bug)
        if as_json:
            explanation = explained_so_far(kept, found.id).to_json(kept)
            print_json({"schema": SCHEMA, "bug": {**bug_json(found, store, library), "explanation": explanation}})
            return
        from driftline.report.terminal import show_bug

        show_bug(found, kept, library)


@bugs.command("mark")
@click.argument("bug", shell_complete=complete_bugs)
@click.argument("status", type=click.Choice([str(status) for status in Status]))
@store_option
@json_option
def mark(bug: str, status: str, store: Path, as_json: bool) -> None:
    """Set the status of a bug.

    new: found; confirmed: a replay or a person saw it again; flaky: fails in some runs; known: reported upstream;
    fixed: passes now. A bug that was fixed and is found again is new.
    """
    from driftline.report.results import SCHEMA, bug_json
    from driftline.store import Store

    Store.open(store).close()  # a store that is not there must not be made by marking
    with Store.create(store) as kept:
        marked = kept.mark(bug, Status(status))
    if as_json:
        print_json({"schema": SCHEMA, "bug": bug_json(marked, store)})
    else:
        click.echo(f"{marked.id} is now {marked.status}.")
