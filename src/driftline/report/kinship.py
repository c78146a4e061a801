"""Find bugs that look alike: same compiler, kernel, type and way to fail. They may have one cause.

Such bugs are not merged, since two causes in one kernel are common, but a report shows them together.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

from driftline.core.verdict import Kind
from driftline.generate.kernels import kernels
from driftline.report.view import FIXED, BugView, Likeness

ALIKE = 0.85  # how much two messages must have in common
FEW = 3  # kernels: common kernels of larger programs mean little
_RESULTS = (Kind.WRONG_VALUE, Kind.WRONG_NONFINITE, Kind.BIAS)


def with_likeness(bugs: Sequence[BugView]) -> list[BugView]:
    """Link each bug to the first bug that it looks like, preferring bugs with a known cause, and sort it behind that
    bug where the order of severity allows.
    """
    leaders = [bug for bug in bugs if bug.causes]
    like: dict[str, Likeness] = {}
    for bug in bugs:
        if bug.causes or bug.group == FIXED:
            continue
        nearest_first = sorted(leaders, key=lambda leader: leader.kind != bug.kind)
        found = next(filter(None, (_likeness(bug, leader) for leader in nearest_first)), None)
        if found:
            like[bug.id] = found
        else:
            leaders.append(bug)
    return in_order([replace(bug, like=like.get(bug.id)) for bug in bugs])


def in_order(bugs: Sequence[BugView]) -> list[BugView]:
    """Sort bugs that are in order of severity: bugs of one cause stand together at the first of them, and each bug
    stands behind the bug that it looks like. A bug never leaves the section of its severity.
    """
    place = {bug.id: number for number, bug in enumerate(bugs)}
    section = {bug.id: (bug.group, bug.severity) for bug in bugs}
    first: dict[tuple[str, int, str], str] = {}  # of a section and a cause
    head = {
        bug.id: first.setdefault((*section[bug.id], bug.causes[0].id), bug.id) if bug.causes else bug.id for bug in bugs
    }

    def order(bug: BugView) -> tuple[int, bool, int]:
        leader = bug.like.bug if bug.like else bug.id
        together = section.get(leader) == section[bug.id]
        return place[head[leader if together else bug.id]], together and bug.like is not None, place[bug.id]

    return sorted(bugs, key=order)


def _likeness(bug: BugView, other: BugView) -> Likeness | None:
    if other.group == FIXED or bug.compiler != other.compiler:
        return None
    shared, types = _kernels(bug) & _kernels(other), _shared_types(bug, other)
    if not shared or not types or not _fail_alike(bug, other):
        return None
    return Likeness(other.id, " and ".join(sorted(shared)), types)


def _fail_alike(bug: BugView, other: BugView) -> bool:
    if bug.kind in _RESULTS and other.kind in _RESULTS:
        return True
    if bug.kind != other.kind:
        return False
    if bug.kind != Kind.ERROR:
        return True
    return difflib.SequenceMatcher(None, bug.message, other.message, autojunk=False).ratio() >= ALIKE


def _kernels(bug: BugView) -> frozenset[str]:
    """Return the kernels of the bug's operators, or the operators if no kernel is known; empty if there are more than
    `FEW`.
    """
    found = frozenset().union(*map(kernels, bug.operators)) or frozenset(bug.operators)
    return found if len(found) <= FEW else frozenset()


def _shared_types(bug: BugView, other: BugView) -> str:
    """Describe the dtypes that both bugs compute with, or return an empty string.

    For wrong values the dtypes must be the same; for other kinds, such as a lost NaN or an exception, dtypes of one
    family (floats of several widths) are enough.
    """
    one, two = _types(bug), _types(other)
    if one & two:
        return ", ".join(sorted(one & two))
    if {bug.kind, other.kind} & {Kind.WRONG_VALUE, Kind.BIAS}:
        return ""
    families = {_family(name) for name in one} & {_family(name) for name in two}
    return " and ".join(f"{name} of several widths" for name in sorted(families))


def _types(bug: BugView) -> frozenset[str]:
    """Return the floating and complex dtypes of the bug, or all dtypes if there are none. Indices and masks beside
    floats are left out.
    """
    found = frozenset(bug.dtypes)
    return frozenset(name for name in found if _family(name) in ("floats", "complex numbers")) or found


def _family(name: str) -> str:
    if "float" in name:
        return "floats"
    return "complex numbers" if name.startswith("complex") else "booleans" if name == "bool" else "integers"
