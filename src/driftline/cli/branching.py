"""A command that also has further ones under its name: `driftline inputs PROGRAM`, and `driftline inputs convert`."""

from __future__ import annotations

from typing import Any

import click


class BranchingCommand(click.Command):
    """Behaves as itself unless its first word names a branch."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.branches: dict[str, click.Command] = {}

    def branch(self, command: click.Command) -> click.Command:
        """Add a further command, under its own name."""
        assert command.name
        self.branches[command.name] = command
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in self.branches:
            return self.branches[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Further commands"):
            formatter.write_dl([
                (f"{self.name} {name}", command.get_short_help_str(limit=90)) for name, command in self.branches.items()
            ])  # fmt: skip
