"""Finds the line of a key in a TOML file, which `tomllib` does not report."""

from __future__ import annotations

import re
from collections import Counter

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)\s*[.=]""")


def line_of(text: str, table: str, key: str = "", index: int = 0) -> int:
    """Return the line of a key in a table; if there is no such key, the line of the table, else 1. The top of the file
    is the table "", and `index` counts tables written `[[name]]`."""
    current, seen, header = "", Counter[str](), 1
    for number, line in enumerate(text.splitlines(), 1):
        if found := _HEADER.match(line):
            current = found[2].strip("\"'")
            here = seen[current] == index
            seen[current] += 1
            if current == table and here:
                header = number
        elif current == table and (not table or seen[current] == index + 1):
            if key and (found := _KEY.match(line)) and found[1].strip("\"'") == key:
                return number
        elif not current and (found := _KEY.match(line)) and found[1].strip("\"'") == table and header == 1:
            header = number  # written in one line: table = {key = ...}, or with a wrong type
    return header
