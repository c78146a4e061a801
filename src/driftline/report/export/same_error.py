"""Compare the error that a script raises with the error in its title; a different error is a different bug."""

from __future__ import annotations

from difflib import SequenceMatcher

from driftline.core.text import first_line, normalise_message, telling_line
from driftline.core.verdict import Kind
from driftline.report.export.subject import Subject

TELLING = 20  # characters of a message that is unlikely to stand in another one
ALIKE = 0.9  # of two messages without numbers, names and places


def another_error(subject: Subject, errors: str) -> str:
    """Return a sentence if the script ended with an error other than the one in its title, otherwise an empty
    string.
    """
    wanted = subject.evidence.raised
    shown = errors.partition("BUG: ")[2].strip()
    if subject.kind != Kind.ERROR or not wanted or not shown:
        return ""
    said = telling_line(wanted.partition(": ")[2])
    if told_alike(wanted, shown) or (len(said) >= TELLING and said in shown):  # a command wraps its compiler's error
        return ""
    return f"another error comes than the one of its title: {first_line(shown, 200)}"


def told_alike(one: str, other: str) -> bool:
    """True if two errors, each `Type: message`, have the same type and nearly the same message, ignoring numbers, names
    and paths.
    """
    types, said = zip(*(text.partition(": ")[::2] for text in (one, other)), strict=True)
    if types[0].rpartition(".")[2] != types[1].rpartition(".")[2]:
        return False
    first, second = (normalise_message(telling_line(text)) for text in said)
    return SequenceMatcher(None, first, second, autojunk=False).ratio() >= ALIKE
