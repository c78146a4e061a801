"""Helpers for text that people read."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

LONGEST = 200  # characters of the longest name that is compared with others: the time grows with the square


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint such as ` Did you mean 'inductor'?`, or an empty string if no known name is similar."""
    names = [str(name) for name in known if len(name) <= LONGEST]  # members of an enum too
    if len(word) > LONGEST:
        return ""
    matches = difflib.get_close_matches(word, names, n=2, cutoff=0.5)
    if not matches and len(word) > 2:
        matches = [name for name in names if name.startswith(word)][:2]
    return f" Did you mean {' or '.join(repr(m) for m in matches)}?" if matches else ""


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: `1 run`, `2 runs`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def first_line(text: str, limit: int = 300) -> str:
    """Return the first line that is not blank, shortened to `limit` characters."""
    for line in text.splitlines():
        if line.strip():
            line = line.strip()
            return line if len(line) <= limit else line[: limit - 1] + "…"
    return ""


def shortened(words: Sequence[str], separator: str = ", ", most: int = 6) -> str:
    """Join the first words, and say how many more there are."""
    more = f"{separator}and {len(words) - most} more" if len(words) > most else ""
    return separator.join(words[:most]) + more


_WRAPPERS = re.compile(
    r"^(Exception from |Traceback \(most recent call last\)|C\+\+ compile error|Command:|\^+$|During handling|--|"
    r"Check 'false' failed at|FrontEnd API failed|Model wasn't fully converted|Summary:$|While validating |"
    r"LLVM module verification failed with the following errors|backend=\S+ raised:$)"
)


def telling_line(text: str, limit: int = 600) -> str:
    """Return the line of an error message that says what is wrong, without the lines in which compilers wrap every
    error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    if lines[0].startswith("C++ compile error"):
        found = next((line.partition("error: ")[2] for line in lines if " error: " in line), "")
        return f"C++ compile error: {found}"[:limit] if found else lines[0]
    if lines[0].startswith("Traceback (most recent call last)"):
        return first_line(lines[-1], limit)
    listed = [line.removeprefix("-- ") for line in lines[lines.index("Summary:") + 1 :]] if "Summary:" in lines else []
    said = next((line for line in [*listed[:1], *lines] if not _WRAPPERS.match(line)), lines[0])
    target = next((line for line in lines[1:] if line.startswith(("target: ", "Offending call: "))), "")
    return first_line(f"{said} ({target})" if target else said, limit)


def told_apart(one: float, other: float) -> tuple[str, str]:
    """Format two numbers with nine digits, or with as many as are needed to see the difference."""
    for digits in range(9, 18):
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def tail(text: str, limit: int = 4000) -> str:
    """Return the end of a log, which says how it ended."""
    return text if len(text) <= limit else "…" + text[-limit:]


def last_words(log: str, lines: int = 3) -> str:
    """Return the last lines of a log, without the list of modules that Python's fault handler prints."""
    said = [line for line in log.splitlines() if line.strip() and not line.startswith("Extension modules:")]
    return "\n".join(said[-lines:])


def parse_json(text: str | bytes) -> Any:
    """Parse JSON as `json.loads` does, but raise `ValueError` for every invalid text, also for endless nesting."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def to_json(value: Any, indent: int | None = None) -> str:
    """Return JSON that every parser accepts: NaN and infinities, which JSON lacks, become text."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


_VOLATILE = (
    (re.compile(r"0x[0-9a-fA-F]+"), "0x?"),
    (re.compile(r"(/[\w.+-]+)+/"), ""),
    (re.compile(r"\b\w+_expanded_function_"), ""),  # ONNX's prefix of names inside a function
    (re.compile(r"'[^']*\d[^']*'"), "'?'"),
    (re.compile(r"'\?'(, ?'\?')+"), "'?'"),
    (re.compile(r"\b(b?float|u?int|complex)\d+\b"), "DTYPE"),
    (re.compile(r"\b[0-9a-f]{12,}\b"), "#"),
    (re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?"), "#"),
    (re.compile(r"#(, ?#)*,?(?=[)\]])"), "#"),
    (re.compile(r"#(, ?#)+"), "#"),
)


def normalise_message(message: str) -> str:
    """Return the first line of an error message without the parts that change from run to run: addresses, paths,
    numbers, shapes."""
    text = first_line(message)
    for pattern, replacement in _VOLATILE:
        text = pattern.sub(replacement, text)
    return text
