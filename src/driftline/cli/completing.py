"""What the shell offers when a word is half typed: targets, bugs of the store, models and generators by their names.

A store that is not there, or cannot be read, offers nothing: completion must never print an error into a command line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from driftline.cli.branching import BranchingCommand
from driftline.core.errors import DriftlineError

Offer = list[CompletionItem]


def complete_targets(context: click.Context, parameter: click.Parameter, typed: str) -> Offer:
    """The last name of a list such as `eager,inductor`, or the only one."""
    from driftline.backends import BACKENDS
    from driftline.backends.presets import PRESETS

    return _listed([*BACKENDS.names(), *(PRESETS if parameter.name == "targets" else ())], typed)


def complete_generators(context: click.Context, parameter: click.Parameter, typed: str) -> Offer:
    from driftline.generate import GENERATORS

    return _listed(GENERATORS.names(), typed)


def complete_bugs(context: click.Context, parameter: click.Parameter, typed: str) -> Offer:
    """Bugs of the store that the command line names, or of the usual one."""
    from driftline.cli.common import store_of_run
    from driftline.core.text import first_line
    from driftline.report.titles import title_of
    from driftline.store import Store, listing

    with contextlib.suppress(DriftlineError, OSError):
        given = context.params.get("store")
        with Store.open(Path(given) if given else store_of_run()) as kept:
            bugs = listing.list_bugs(kept, listing.BugFilter(), most=-1)
        found = (bug for bug in bugs if bug.id.startswith(typed))
        return [CompletionItem(bug.id, help=first_line(title_of(bug), 70)) for bug in found]
    return []


def complete_program(context: click.Context, parameter: click.Parameter, typed: str) -> Offer:
    """Files, models of the corpus as model:NAME, and the further commands under this one's name."""
    from driftline.models.catalogue import CATALOGUE

    branches = context.command.branches if isinstance(context.command, BranchingCommand) else ()
    corpus = [f"model:{name}" for name in sorted(CATALOGUE)] if typed else []  # eighty names hide the files
    files = CompletionItem(typed, type="file")  # first: the script for bash forgets what comes before
    return [files, *_beginning([*branches, *corpus], typed)]


def complete_subject(context: click.Context, parameter: click.Parameter, typed: str) -> Offer:
    """A bug, or a program."""
    return [*complete_program(context, parameter, typed), *complete_bugs(context, parameter, typed)]


def complete_models(context: click.Context, parameter: click.Parameter, typed: str) -> Offer:
    from driftline.models.catalogue import CATALOGUE

    return _beginning(sorted(CATALOGUE), typed)


def _listed(names: Iterable[str], typed: str) -> Offer:
    before, comma, last = typed.rpartition(",")
    taken = before.split(",")
    return [CompletionItem(f"{before}{comma}{name}") for name in names if name.startswith(last) and name not in taken]


def _beginning(names: Iterable[str], typed: str) -> Offer:
    return [CompletionItem(name) for name in names if name.startswith(typed)]
