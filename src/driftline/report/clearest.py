"""Choose the bug that a reader understands fastest; a hunt and the demo show this bug in full."""

from __future__ import annotations

import re
from collections.abc import Sequence

from driftline.core.severity import ON_SPECIAL_VALUES
from driftline.report.view import OPEN, BugView

FEW_LINES = 24  # of a script that is read at a glance
FEW_DIGITS = 6  # of a number that is read at a glance
_NUMBER = re.compile(r"\d+")
_SPECIAL = re.compile(r"\b(nan|inf|infinity|subnormal)\b|\de[-+]\d", re.IGNORECASE)


def clearest(bugs: Sequence[BugView]) -> BugView | None:
    """Return the bug that is quickest to read and least open to dispute, or None if there are no bugs."""
    return min(bugs, key=_unclarity, default=None)


def _unclarity(bug: BugView) -> tuple[bool, bool, bool, bool, bool, int, bool, int, str]:
    """Return a sort key: properties that make a bug hard to read or to believe, most important first."""
    script = bug.shortest.script
    lines = script.count("\n") + 1
    return (
        bug.group != OPEN,
        bug.failed_runs[0] != bug.failed_runs[1],
        _is_debatable(bug),
        bug.severity == ON_SPECIAL_VALUES or _has_special_numbers(bug),
        not bug.certain,
        bug.severity,
        not script or lines > FEW_LINES,
        _size(bug),
        bug.id,
    )


def _is_debatable(bug: BugView) -> bool:
    """True if a cause or a rule calls the bug debatable, if the specification leaves the result open on another
    compiler, or if every other compiler that was judged fails as well.
    """
    said = [words.lower() for words in bug.others.values()]
    judged = [words for words in said if words.startswith(("pass", "fail"))]
    alone = bool(judged) and not any(words.startswith("pass") for words in judged)
    return alone or bug.debatable or any("specification" in words for words in said)


def _has_special_numbers(bug: BugView) -> bool:
    """True if the title contains NaN, an infinity, an exponent or a long number, which typically comes from an
    overflow.
    """
    return bool(_SPECIAL.search(bug.title)) or any(len(digits) > FEW_DIGITS for digits in _NUMBER.findall(bug.title))


def _size(bug: BugView) -> int:
    """Estimate the amount of text to read: operators, digits and the script."""
    digits = sum(map(len, _NUMBER.findall(bug.title)))
    return 40 * len(bug.spelled) + 5 * digits + len(bug.shortest.script) // 10
