"""The man page, written from the commands: `make man`, and by the build of the wheel (`hatch_build.py`).

The build has click and numpy and no other package, so nothing that this imports may need one.
"""

from __future__ import annotations

import re

from driftline import __version__
from driftline.cli import cli
from driftline.cli.tree import CommandNode, Paragraph, command_tree


def man_page() -> str:
    """driftline(1) in the language of man."""
    root, *commands = command_tree(cli)
    lines = [
        f'.TH DRIFTLINE 1 "" "Driftline {__version__}" "User Commands"',
        ".SH NAME",
        f"driftline {_escaped('-')} finds, explains, shrinks and reports bugs in deep{_escaped('-')}learning compilers",
        ".SH SYNOPSIS",
        ".B driftline",
        "COMMAND [OPTIONS] [ARGUMENTS]",
        ".SH DESCRIPTION",
        *_text(root.paragraphs),
        ".SH OPTIONS",
        *_options(root),
        ".SH COMMANDS",
    ]
    for node in commands:
        lines += [f".SS {_escaped(node.name)}", f".B {_escaped(node.usage)}", *_text(node.paragraphs), *_options(node)]
        if node.appendix:
            lines += _verbatim(node.appendix)
    return "\n".join(lines) + "\n"


def _text(paragraphs: list[Paragraph]) -> list[str]:
    lines = []
    for paragraph in paragraphs:
        if paragraph.verbatim:
            lines += _verbatim(paragraph.text)
        else:
            lines += [".PP", _escaped(paragraph.text)]
    return lines


def _verbatim(text: str) -> list[str]:
    return [".PP", ".nf", *(_escaped(line) for line in text.splitlines()), ".fi"]


def _options(node: CommandNode) -> list[str]:
    return [line for option, words in node.options for line in (".TP", f"\\fB{_escaped(option)}\\fR", _escaped(words))]


def _escaped(text: str) -> str:
    """Text that man shows as it is: backslashes, hyphens of options, and lines that would be requests."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


if __name__ == "__main__":
    print(man_page(), end="")
