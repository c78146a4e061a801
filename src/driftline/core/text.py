"""Small helpers for the sentences people read."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint such as ` Did you mean 'inductor'?`, or the empty string when nothing is near."""
    matches = difflib.get_close_matches(word, list(known), n=2, cutoff=0.5)
    return f" Did you mean {' or '.join(repr(m) for m in matches)}?" if matches else ""


def first_line(text: str, limit: int = 300) -> str:
    """The first line that says something, shortened."""
    for line in text.splitlines():
        if line.strip():
            line = line.strip()
            return line if len(line) <= limit else line[: limit - 1] + "…"
    return ""


def tail(text: str, limit: int = 4000) -> str:
    """The end of a log: the part that says how it ended."""
    return text if len(text) <= limit else "…" + text[-limit:]


_VOLATILE = (
    (re.compile(r"0x[0-9a-fA-F]+"), "0x?"),
    (re.compile(r"(/[\w.+-]+)+/"), ""),
    (re.compile(r"'[^']*\d[^']*'"), "'?'"),
    (re.compile(r"\b[0-9a-f]{12,}\b"), "#"),
    (re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?"), "#"),
    (re.compile(r"#(, ?#)+"), "#"),
)


def normalise_message(message: str) -> str:
    """An error message without what changes from run to run: addresses, paths, numbers, shapes."""
    text = first_line(message)
    for pattern, replacement in _VOLATILE:
        text = pattern.sub(replacement, text)
    return text
