"""The reference of the commands, as Markdown: one page for each command of `driftline --help`, with those below it."""

from __future__ import annotations

import html

from driftline.cli import cli
from driftline.cli.tree import CommandNode, Paragraph, command_tree


def command_pages() -> dict[str, str]:
    """Markdown by the name of the command; all of `--help` is in it."""
    root, *nodes = command_tree(cli)
    pages = {"driftline": _section(root, 1)}
    for node in nodes:
        top = node.name.split()[1]
        pages[top] = pages.get(top, "") + _section(node, len(node.name.split()) - 1)
    return pages


def _section(node: CommandNode, depth: int) -> str:
    parts = [f"{'#' * depth} {node.name}", _block(node.usage), *map(_paragraph, node.paragraphs)]
    parts += [f"`{option}`\n:   {_plain(words)}" for option, words in node.options]
    if node.appendix:
        parts.append(_block(node.appendix))
    return "\n\n".join(parts) + "\n\n"


def _paragraph(paragraph: Paragraph) -> str:
    return _block(paragraph.text) if paragraph.verbatim else _plain(paragraph.text)


def _block(text: str) -> str:
    return f"```text\n{text}\n```"


def _plain(text: str) -> str:
    """Help is plain text, but for code between backticks: nothing else in it is Markdown or HTML."""
    pieces = text.split("`")
    for at in range(0, len(pieces), 2):
        escaped = html.escape(pieces[at], quote=False)
        for sign in r"\*_[]|#":
            escaped = escaped.replace(sign, f"&#{ord(sign)};" if sign != "#" else sign)
        pieces[at] = escaped
    return "`".join(pieces)
