"""One quoting function for each place that text is written into: names come from models, stores and plugins, and may
hold anything.

| place                               | function                        |
|-------------------------------------|---------------------------------|
| a comment of generated Python       | `comment`                       |
| a string of generated Python        | `string`                        |
| a name in generated Python          | `identifier`                    |
| a terminal, HTML (before escaping)  | `visible`, `one_line`           |
| Markdown                            | `markdown`, `code`, `fenced`, `cell` |
| a cell of a spreadsheet             | `spreadsheet`                   |
| a command to be typed               | `shell`                         |

Each gives the text back unchanged as long as nothing in it could be misread.
"""

from __future__ import annotations

import keyword
import re
import shlex
from collections.abc import Iterable

LONGEST = 300  # characters of a name that stands in a line of text

# Control characters but newline and tab, and characters that reorder, hide or break what a reader sees.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """The same text in which nothing is hidden and nothing steers a terminal; line ends and tabs stay."""
    return _HIDDEN.sub(lambda found: _picture(ord(found[0])), text)


def _picture(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)  # the symbols that Unicode has for them
    return "\u2421" if code == 0x7F else "\ufffd"


def one_line(text: str, limit: int = 0) -> str:
    """Visible text without line ends, cut to `limit` characters where one is given."""
    line = " ".join(visible(text).split())
    return line if not limit or len(line) <= limit else f"{line[: limit - 1]}…"


# -- generated Python --------------------------------------------------------------------------------------------------


def comment(text: str, limit: int = LONGEST) -> str:
    """What may follow `# `: one line, whatever Python takes for a line end."""
    return one_line(text, limit)


def string(text: str) -> str:
    """A literal in double quotes that gives the text back. (JSON is not Python: it writes large characters in two.)"""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join({'"': '\\"', "'": "'"}.get(char) or repr(char)[1:-1] for char in text) + '"'


def is_identifier(text: str) -> bool:
    """May this stand in generated Python as a name, dots included (`torch.relu`)? Plain letters only: others may look
    like them."""
    return text.isascii() and all(part.isidentifier() and not keyword.iskeyword(part) for part in text.split("."))


def identifier(text: str, limit: int = 60) -> str:
    """A name made of the text."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", text[:limit])
    return name if is_identifier(name) else f"_{name}"


# -- Markdown ----------------------------------------------------------------------------------------------------------


class Markdown(str):
    """Text that is Markdown already, such as `code` gives: it is not quoted again."""

    __slots__ = ()


# What begins something else than a paragraph: headings, lists, rules, quotations, fences, definitions of links.
_MARKDOWN_BLOCK = re.compile(r"^(?:[>\[=]|~~~|#+(?=\s|$)|[-+*](?=\s|$)|(?=([-_*])(?:\s*\1){2,}\s*$).)")
_MARKDOWN_NUMBER = re.compile(r"^(\d+)([.)])(?=\s|$)")


def markdown(text: str, limit: int = 0) -> Markdown:
    """Text as it is, in one line: no tags, links, pictures, code or headings come out of it."""
    if isinstance(text, Markdown):
        return text
    line = one_line(text, limit)
    line = re.sub(r"\\(?=[!-/:-@\[-`{-~]|$)", r"\\\\", line)  # a backslash of theirs must not undo one of ours
    line = re.sub(r"&(?=#?\w+;)", "&amp;", line).replace("<", "&lt;")
    line = line.replace("`", "\\`").replace("](", "]\\(").replace("][", "]\\[")
    line = _MARKDOWN_NUMBER.sub(r"\1\\\2", line)
    return Markdown(_MARKDOWN_BLOCK.sub(r"\\\g<0>", line))


def code(text: str, limit: int = 0) -> Markdown:
    """A span of code."""
    line = one_line(text, limit)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if line[:1] == "`" or line[-1:] == "`" or not line else ""
    return Markdown(f"{fence}{pad}{line}{pad}{fence}")


def fenced(text: str, language: str = "") -> Markdown:
    """A block of code, whose fence is longer than any in it."""
    body = visible(text)
    fence = "`" * (1 + max([2, *(len(run) for run in re.findall("`+", body))]))
    return Markdown(f"{fence}{language}\n{body}\n{fence}")


def cell(text: str) -> str:
    """A cell of a Markdown table."""
    return markdown(text).replace("|", "\\|")


# -- others ------------------------------------------------------------------------------------------------------------


def spreadsheet(value: object) -> object:
    """A cell of a CSV file: programs for tables take what begins like a formula for one."""
    if not isinstance(value, str):
        return value
    shown = visible(value)
    return f"'{shown}" if shown[:1] in ("=", "+", "-", "@", "\t") else shown


def shell(words: Iterable[object]) -> str:
    """A command as it is typed. What cannot be shown in a line is replaced by a symbol, so such a command has to be
    typed by hand; it never does something else."""
    return " ".join(shlex.quote(one_word(str(word))) for word in words)


def one_word(text: str) -> str:
    return visible(text).replace("\n", "\u240a").replace("\t", "\u2409")
