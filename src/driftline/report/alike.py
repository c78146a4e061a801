"""Find bugs of a list that look alike by comparing fingerprints only, which is fast enough for thousands of bugs.

`kinship.py` also compares programs and types, and is more precise, but needs the whole report.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from driftline.core.verdict import Kind
from driftline.generate.kernels import kernels
from driftline.store import Bug

_RESULTS = (Kind.WRONG_VALUE, Kind.WRONG_NONFINITE, Kind.BIAS)
_TYPE = re.compile(r"\b(b?float|u?int|complex)\d*(_\w+)?\b|\bbool\b")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_MESSAGE = 60  # characters by which errors are compared


def alike(bugs: Iterable[Bug]) -> dict[str, str]:
    """Map the id of each bug that looks like an older bug to the id of that older bug. Two bugs look alike if they have
    the same compiler, a similar way to fail, and the same kernels.
    """
    first: dict[tuple[str, str, str], str] = {}
    like: dict[str, str] = {}
    for bug in sorted(bugs, key=lambda bug: (bug.first_seen, bug.id)):
        leader = first.setdefault(_key(bug), bug.id)
        if leader != bug.id:
            like[bug.id] = leader
    return like


def _key(bug: Bug) -> tuple[str, str, str]:
    mark = bug.fingerprint
    if mark.kind == Kind.ERROR:
        return mark.backend, mark.kind, mark.detail[:_MESSAGE]
    names = _NAME.findall(_TYPE.sub("", mark.detail))
    found = frozenset().union(*map(kernels, names)) or frozenset(names)
    return mark.backend, "results" if mark.kind in _RESULTS else mark.kind, " ".join(sorted(found))
