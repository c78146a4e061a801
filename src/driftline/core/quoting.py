"""Quoting functions, one for each kind of output: names come from models, stores and plugins, and may hold anything.

| place                               | function                        |
|-------------------------------------|---------------------------------|
| a comment of generated Python       | `comment`                       |
| a string of generated Python        | `string`                        |
| a name in generated Python          | `identifier`                    |
| a terminal, HTML (before escaping)  | `visible`, `one_line`           |
| Markdown                            | `markdown`, `code`, `fenced`, `cell` |
| a cell of a spreadsheet             | `spreadsheet`                   |
| a command to be typed               | `shell`                         |

Each returns the text unchanged if nothing in it could be misread.
"""

from __future__ import annotations

import keyword
import re
import shlex
from collections.abc import Iterable

LONGEST = 300  # characters of a name in a line of text

# Control characters except newline and tab, and characters that reorder, hide or break the visible text.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Replace hidden characters, and those that control a terminal, by visible symbols; line ends and tabs stay."""
    return _HIDDEN.sub(lambda found: _picture(ord(found[0])), text)


def _picture(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's symbols for control characters
    return "\u2421" if code == 0x7F else "\ufffd"


def one_line(text: str, limit: int = 0) -> str:
    """Return visible text without line ends, cut to `limit` characters if a limit is given."""
    line = " ".join(visible(text).split())
    return line if not limit or len(line) <= limit else f"{line[: limit - 1]}…"


# -- generated Python --------------------------------------------------------------------------------------------------


def comment(text: str, limit: int = LONGEST) -> str:
    """Return text that may follow `# `: one line, whatever Python treats as a line end."""
    return one_line(text, limit)


def string(text: str) -> str:
    """Return a Python literal in double quotes for a text. (JSON is not Python: it writes large characters in two.)"""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join({'"': '\\"', "'": "'"}.get(char) or repr(char)[1:-1] for char in text) + '"'


def is_identifier(text: str) -> bool:
    """True if a text may be a name in generated Python, dots included (`torch.relu`). Only ASCII letters, since others
    may look like them."""
    return text.isascii() and all(part.isidentifier() and not keyword.iskeyword(part) for part in text.split("."))


def identifier(text: str, limit: int = 60) -> str:
    """Return an identifier made from a text."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", text[:limit])
    return name if is_identifier(name) else f"_{name}"


# -- Markdown ----------------------------------------------------------------------------------------------------------


class Markdown(str):
    """Text that is already Markdown, such as the result of `code`: it is not quoted again."""

    __slots__ = ()


# Beginnings of anything but a paragraph: headings, lists, rules, quotations, fences, definitions of links.
_MARKDOWN_BLOCK = re.compile(r"^(?:[>\[=]|~~~|#+(?=\s|$)|[-+*](?=\s|$)|(?=([-_*])(?:\s*\1){2,}\s*$).)")
_MARKDOWN_NUMBER = re.compile(r"^(\d+)([.)])(?=\s|$)")


def markdown(text: str, limit: int = 0) -> Markdown:
    """Quote text as one line of Markdown, so that it makes no tags, links, pictures, code or headings."""
    if isinstance(text, Markdown):
        return text
    line = one_line(text, limit)
    line = re.sub(r"\\(?=[!-/:-@\[-`{-~]|$)", r"\\\\", line)  # a backslash in the text must not cancel an added one
    line = re.sub(r"&(?=#?\w+;)", "&amp;", line).replace("<", "&lt;")
    line = line.replace("`", "\\`").replace("](", "]\\(").replace("][", "]\\[")
    line = _MARKDOWN_NUMBER.sub(r"\1\\\2", line)
    return Markdown(_MARKDOWN_BLOCK.sub(r"\\\g<0>", line))


def code(text: str, limit: int = 0) -> Markdown:
    """Return a span of code in Markdown."""
    line = one_line(text, limit)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if line[:1] == "`" or line[-1:] == "`" or not line else ""
    return Markdown(f"{fence}{pad}{line}{pad}{fence}")


def fenced(text: str, language: str = "") -> Markdown:
    """Return a block of code in Markdown, with a fence longer than any in the text."""
    body = visible(text)
    fence = "`" * (1 + max([2, *(len(run) for run in re.findall("`+", body))]))
    return Markdown(f"{fence}{language}\n{body}\n{fence}")


def cell(text: str) -> str:
    """Quote text for a cell of a Markdown table."""
    return markdown(text).replace("|", "\\|")


# -- others ------------------------------------------------------------------------------------------------------------


def spreadsheet(value: object) -> object:
    """Quote a value for a cell of a CSV file, so that a spreadsheet program does not treat it as a formula."""
    if not isinstance(value, str):
        return value
    shown = visible(value)
    return f"'{shown}" if shown[:1] in ("=", "+", "-", "@", "\t") else shown


def shell(words: Iterable[object]) -> str:
    """Quote a command for a shell. Characters that cannot be shown in a line are replaced by a symbol: such a command
    must be typed by hand, but never does something else."""
    return " ".join(shlex.quote(one_word(str(word))) for word in words)


def one_word(text: str) -> str:
    return visible(text).replace("\n", "\u240a").replace("\t", "\u2409")
