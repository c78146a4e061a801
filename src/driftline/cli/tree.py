"""All commands as data, for what is written from them: the man page, the reference of the site, tests of the docs.

Nothing is described twice: names, usage, explanations, arguments and options are those that `--help` shows.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

import click

from driftline.cli.branching import BranchingCommand

_VERBATIM = "\b"  # how click is told to leave the lines of a paragraph as they are


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of a help text; the lines of a verbatim one stay as they are."""

    text: str
    verbatim: bool = False


@dataclass(frozen=True)
class CommandNode:
    """A command with the words that name it, such as `driftline bugs list`."""

    name: str
    command: click.Command
    context: click.Context

    @property
    def usage(self) -> str:
        return " ".join((self.name, *self.command.collect_usage_pieces(self.context)))

    @property
    def summary(self) -> str:
        return self.command.get_short_help_str(limit=200)

    @property
    def paragraphs(self) -> list[Paragraph]:
        parts = inspect.cleandoc(self.command.help or "").split("\n\n")
        return [_paragraph(part) for part in parts if part.strip()]

    @property
    def options(self) -> list[tuple[str, str]]:
        """Each option as it is written, with what it does. `--help`, which all have, is left out."""
        every = self.command.get_params(self.context)
        wanted = (param for param in every if isinstance(param, click.Option) and "--help" not in param.opts)
        records = (param.get_help_record(self.context) for param in wanted)
        return [record for record in records if record]

    @property
    def appendix(self) -> str:
        """What the help of this command shows after its options, line by line."""
        formatter = self.context.make_formatter()
        self.command.format_epilog(self.context, formatter)
        return inspect.cleandoc(formatter.getvalue())


def _paragraph(text: str) -> Paragraph:
    if text.startswith(_VERBATIM):
        return Paragraph(text.removeprefix(_VERBATIM).strip("\n"), verbatim=True)
    return Paragraph(" ".join(text.split()))


def command_tree(command: click.Command, name: str = "driftline") -> Iterator[CommandNode]:
    """A command and all below it, in the order of `--help`."""
    yield from _below(command, name, None)


def _below(command: click.Command, name: str, parent: click.Context | None) -> Iterator[CommandNode]:
    context = click.Context(command, info_name=name.rpartition(" ")[2], parent=parent, **command.context_settings)
    yield CommandNode(name, command, context)
    if isinstance(command, BranchingCommand):
        for branch, child in command.branches.items():
            yield from _below(child, f"{name} {branch}", parent)
    elif isinstance(command, click.Group):
        for word in command.list_commands(context):
            found = command.get_command(context, word)
            assert found
            if not found.hidden:
                yield from _below(found, f"{name} {word}", context)
