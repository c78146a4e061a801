"""The summary of a hunt that ended early: what it has, or that nothing was compared. The error beside it says why."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from driftline.cli.clock import elapsed
from driftline.core.closing import FailedStep, closing_step
from driftline.core.errors import DriftlineError

if TYPE_CHECKING:
    from driftline.causes import Library
    from driftline.store import Store
    from driftline.store.hunts import Hunt, HuntLog


@contextmanager
def summary_of_nothing(*, as_json: bool) -> Iterator[None]:
    """Print that nothing was compared when what runs inside cannot go on; the error says why."""
    try:
        yield
    except DriftlineError:
        if not as_json:
            show_nothing()
        raise


def show_nothing_of(arguments: Sequence[str]) -> None:
    """The same for a command line that was interrupted, where it is a hunt."""
    if arguments[:1] == ["hunt"] and "--json" not in arguments:
        show_nothing()


def show_nothing() -> None:
    """Print the summary of a hunt that did not begin."""
    click.echo(f"\n0 programs on 0 compilers in {elapsed():.0f} s. Nothing was compared.")


def own_hunt(log: HuntLog, older: Container[int], *, resuming: bool) -> Hunt | None:
    """The hunt that this command began or resumed; `None` where it did not come so far. `older`: hunts by number that
    were in the store before."""
    begun = [one for one in log.hunts() if one.id not in older]
    return next(iter(begun or (log.unfinished() if resuming else [])), None)


def show_so_far(store: Store, hunt: Hunt, library: Library | None, *, as_json: bool, interrupted: bool = False) -> None:
    """Print the summary of what a hunt has in the store; what cannot be read is left out."""
    from driftline.campaign.hunt.result import hunt_so_far
    from driftline.cli.common import print_json, tell_failed
    from driftline.report.hunts import hunt_json, show_hunt

    failed: list[FailedStep] = []
    with closing_step(failed, "showing what was found", "driftline bugs list shows what the store holds"):
        so_far = hunt_so_far(store, hunt)
        if as_json:
            print_json({**hunt_json(so_far, store, library), **({"interrupted": True} if interrupted else {})})
        else:
            show_hunt(so_far, store, None, library)
    tell_failed(failed)
