"""The program in a model's answer, as text. Nothing here reads it as Python: that happens in a worker."""

from __future__ import annotations

import hashlib
import re

_FENCE = re.compile(r"```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:```|\Z)", re.S)
_NAME = re.compile(r"[A-Za-z_]\w*")


def code_of(text: str) -> str:
    """The longest block of code, or the whole text where there is none."""
    blocks = [body for language, body in _FENCE.findall(text) if language.lower() in ("", "python", "py", "python3")]
    found = max(blocks, key=len) if blocks else text
    return found.strip() + "\n"


def digest_of(code: str) -> str:
    """Equal for programs that differ in comments, blank lines and spaces at the ends of lines alone."""
    lines = (line.partition(" #")[0].rstrip() for line in code.splitlines())
    kept = "\n".join(line for line in lines if line.strip() and not line.strip().startswith("#"))
    return hashlib.sha256(kept.encode()).hexdigest()[:16]


def names_in(text: str) -> list[str]:
    """The words of an answer, a list in JSON among them, that may be names of operators, in their order."""
    return [word for line in code_of(text).splitlines() for word in _NAME.findall(line)]
