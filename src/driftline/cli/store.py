"""`driftline store`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.common import json_option, note, print_json

if TYPE_CHECKING:
    from driftline.store.merge import MergeResult, Sentences
    from driftline.store.remote import Transfer

_SHOWN = 20  # sentences of one sort on a screen


@click.group()
def store() -> None:
    """Work on whole stores: merge what several machines found, push it to a folder or an object store, pull it back."""


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
    a hunt is writing is taken as it is at that moment.

    \b
      driftline store merge shard-1 shard-2 shard-3 --into all
      driftline store merge runs/*/store --into all --json

    A bug that two stores know is one bug: seen from the first to the last moment of both, with the findings of both. A
    status that people gave wins over one that Driftline gave; two that contradict each other are named. A hunt that is
    in two stores is taken as it was later. How often a program was checked is the greatest count, not the sum.

    Exit codes: 0 merged, 1 merged, but damaged rows or objects were skipped, 2 a store is missing, written by another
    release of Driftline, or in use.
    """
    from driftline.report.results import SCHEMA
    from driftline.store.merge import merge_stores

    result = merge_stores(stores, into)
    if as_json:
        print_json({"schema": SCHEMA, **result.to_json()})
    else:
        _show(result)
    return 1 if result.damaged.count else 0


@store.command()
@click.argument("source", type=click.Path(path_type=Path, file_okay=False), metavar="STORE")
@click.argument("address", metavar="URL")
@json_option
def push(source: Path, address: str, as_json: bool) -> int:
    """Bring what a store holds to a folder or an object store; what lies there is a store again.

    Only objects that are missing there are sent. What others pushed to the same URL stays: rows are merged as by
    `driftline store merge`. A hunt may go on meanwhile: the store is taken as it is at one moment. Readers of the URL
    see the old state or the new one, never half of it.

    \b
      driftline store push .driftline /mnt/shared/hunts
      driftline store push shard-3 s3://bucket/hunts        with pip install 'driftline[remote]' s3fs

    URL is what fsspec knows: a folder, file://, s3://, gs://, az://, sftp://. Exit codes: 0 pushed, 1 pushed, but
    damaged rows or objects were left out, 2 the store or the URL cannot be used, 4 a package is not installed.
    """
    from driftline.store.remote import push as send

    return _told(send(source, address), f"{source} is pushed to {address}", as_json)


@store.command()
@click.argument("address", metavar="URL")
@click.argument("into", type=click.Path(path_type=Path, file_okay=False), metavar="STORE")
@click.option(
    "--limit",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    metavar="GIB",
    help="Refuse to fetch more than this: what lies at the URL may be anything.",
)
@json_option
def pull(address: str, into: Path, limit: float, as_json: bool) -> int:
    """Bring what was pushed to a URL into a store, which is made if it is not there.

    What the store holds already stays: rows are merged as by `driftline store merge`, and only objects that are missing
    here are fetched.

    \b
      driftline store pull s3://bucket/hunts all
      driftline report --store all --out report.html

    Exit codes: 0 pulled, 1 pulled, but damaged rows or objects were left out, 2 the store or the URL cannot be used, 4
    a package is not installed.
    """
    from driftline.store.remote import pull as fetch

    return _told(fetch(address, into, limit=int(limit * (1 << 30))), f"{address} is pulled into {into}", as_json)


def _told(done: Transfer, what: str, as_json: bool) -> int:
    from driftline.report.results import SCHEMA

    if as_json:
        print_json({"schema": SCHEMA, **done.to_json()})
    else:
        _tell("Conflict", done.merged.conflicts)
        _tell("Damaged", done.merged.damaged)
        rows = sum(done.merged.added.values()) + sum(done.merged.updated.values())
        click.echo(f"{what}: {done.objects:,} objects ({done.size / 2**20:.1f} MiB), {rows:,} rows new or updated.")
    return 1 if done.merged.damaged.count else 0


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
