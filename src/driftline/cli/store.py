"""`driftline store`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.common import json_option, note, print_json

if TYPE_CHECKING:
    from driftline.store.merge import MergeResult, Sentences

_SHOWN = 20  # sentences of one sort on a screen


@click.group()
def store() -> None:
    """Work on whole stores: merge what several machines found."""


@store.command()
@click.argument("stores", nargs=-1, required=True, type=click.Path(path_type=Path, file_okay=False), metavar="STORE...")
@click.option(
    "--into",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="The store that gets everything; it is made if it is not there.",
)
@json_option
def merge(stores: tuple[Path, ...], into: Path, as_json: bool) -> int:
    """Merge stores into one: bugs, findings, cases, hunts, audits, checks, reductions, diagnoses, answers of models.

    The result is the same in any order, and merging a store again changes nothing. The stores are only read: one that
    a hunt is writing is taken as it is at that moment, and one of an older Driftline is brought up to date in a copy.

    \b
      driftline store merge shard-1 shard-2 shard-3 --into all
      driftline store merge runs/*/store --into all --json

    A bug that two stores know is one bug: seen from the first to the last moment of both, with the findings of both. A
    status that people gave wins over one that Driftline gave; two that contradict each other are named. A hunt that is
    in two stores is taken as it was later. How often a program was checked is the greatest count, not the sum.

    Exit codes: 0 merged, 1 merged, but damaged rows or objects were skipped, 2 a store is missing, newer than this
    Driftline, or in use.
    """
    from driftline.report.results import SCHEMA
    from driftline.store.merge import merge_stores

    result = merge_stores(stores, into)
    if as_json:
        print_json({"schema": SCHEMA, **result.to_json()})
    else:
        _show(result)
    return 1 if result.damaged.count else 0


def _show(result: MergeResult) -> None:
    _tell("Conflict", result.conflicts)
    _tell("Damaged", result.damaged)
    shown = [
        f"{count:,} {name.replace('_', ' ')}" for name, count in result.added.items() if name in ("bugs", "findings")
    ]
    others = sum(result.added.values()) - sum(result.added[name] for name in ("bugs", "findings"))
    click.echo(
        f"{result.stores} stores merged into {result.into}: {', '.join([*shown, f'{others:,} other rows'])} added,"
        f" {sum(result.updated.values()):,} updated."
    )


def _tell(what: str, told: Sentences) -> None:
    for sentence in told.first[:_SHOWN]:
        note(f"{what}: {sentence}")
    if told.count > _SHOWN:
        note(f"{what}: {told.count - _SHOWN:,} more; --json lists the first hundred.")
