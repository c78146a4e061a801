"""`--quiet` and `--no-color`, which every command takes."""

from __future__ import annotations

import click

from driftline.cli.branching import BranchingCommand
from driftline.core.terminal import be_quiet, drop_colours

_DONE = "driftline_terminal_options"


def with_terminal_options(command: click.Command) -> click.Command:
    """The command, and all below it, with the two options; they come after its own."""
    if not hasattr(command, _DONE):
        setattr(command, _DONE, True)
        command.params += [_quiet(), _no_color()]
        below = command.commands if isinstance(command, click.Group) else {}
        branches = command.branches if isinstance(command, BranchingCommand) else {}
        for child in (*below.values(), *branches.values()):
            with_terminal_options(child)
    return command


def _quiet() -> click.Option:
    def ask(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value:
            be_quiet()

    return click.Option(
        ["-q", "--quiet"], is_flag=True, expose_value=False, callback=ask, help="No progress: only what came out."
    )


def _no_color() -> click.Option:
    def ask(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value:
            drop_colours()

    return click.Option(
        ["--no-color"],
        is_flag=True,
        expose_value=False,
        callback=ask,
        help="No colours, as with NO_COLOR=1.",
    )
