"""`driftline bugs`."""

from __future__ import annotations

from pathlib import Path

import click

from driftline.cli.common import json_option, print_json, store_option
from driftline.core.verdict import Status


@click.group()
def bugs() -> None:
    """Browse what was found: list all bugs, show one, or say where it stands."""


@bugs.command("list")
@store_option
@json_option
def list_bugs(store: Path, as_json: bool) -> None:
    """List all bugs, the newest first."""
    from driftline.report.results import SCHEMA, bug_json
    from driftline.store import Store

    with Store.open(store) as kept:
        found = [kept.bug(bug.id) for bug in kept.bugs()]
    if as_json:
        print_json({"schema": SCHEMA, "bugs": [bug_json(bug, store) for bug in found]})
        return
    from driftline.report.terminal import show_bugs

    show_bugs(found, store)


@bugs.command("show")
@click.argument("bug")
@store_option
@json_option
def show(bug: str, store: Path, as_json: bool) -> None:
    """Show one bug: program, inputs, evidence, log, what explains it, and the commands that replay it and explain more.

    A unique prefix of its name is enough.
    """
    from driftline.report.explained import explained_so_far
    from driftline.report.results import SCHEMA, bug_json
    from driftline.store import Store

    with Store.open(store) as kept:
        found = kept.bug(bug)
        if as_json:
            explanation = explained_so_far(kept, found.id).to_json(kept)
            print_json({"schema": SCHEMA, "bug": {**bug_json(found, store), "explanation": explanation}})
            return
        from driftline.report.terminal import show_bug

        show_bug(found, kept)


@bugs.command("mark")
@click.argument("bug")
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
