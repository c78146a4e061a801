"""Extracts the program from a model's answer, as text. It is parsed as Python in a worker only."""

from __future__ import annotations

import hashlib
import re

_FENCE = re.compile(r"```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:```|\Z)", re.S)
_NAME = re.compile(r"[A-Za-z_]\w*")


def code_of(text: str) -> str:
    """Return the longest code block of an answer, or the whole text if there is none."""
    blocks = [body for language, body in _FENCE.findall(text) if language.lower() in ("", "python", "py", "python3")]
    found = max(blocks, key=len) if blocks else text
    return found.strip() + "\n"


def digest_of(code: str) -> str:
    """Return a digest that ignores comments, blank lines and trailing spaces."""
    lines = (line.partition(" #")[0].rstrip() for line in code.splitlines())
    kept = "\n".join(line for line in lines if line.strip() and not line.strip().startswith("#"))
    return hashlib.sha256(kept.encode()).hexdigest()[:16]


def names_in(text: str) -> list[str]:
    """Return the words of an answer, or of a JSON list in it, that may be operator names, in order."""
    return [word for line in code_of(text).splitlines() for word in _NAME.findall(line)]
