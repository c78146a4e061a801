"""The causes of stored bugs. Held against the library each time: nothing of a cause is kept in the store.

What a finding must say for that (operators, dtypes, processor, answers of experiments) is written down with it when it
is recorded; findings of older stores do not say it, and go without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from driftline.causes import Cause, Library, Sighting, builtin, explains, may_explain
from driftline.causes.sighting import answers_from
from driftline.core.errors import DriftlineError
from driftline.core.severity import severity
from driftline.core.target import Target
from driftline.core.verdict import Status
from driftline.store import Bug, Finding


def sighting_in(bug: Bug, finding: Finding) -> Sighting:
    """The facts of a stored finding."""
    facts: Mapping[str, Any] = finding.verdict.get("sighting") or {}
    try:
        options = dict(Target.parse(finding.target).options)
    except DriftlineError:
        options = {}
    return Sighting(
        backend=bug.fingerprint.backend,
        kind=bug.fingerprint.kind,
        evidence=finding.evidence,
        version=str(finding.execution.get("version") or ""),
        machine=str(facts.get("machine") or ""),
        stage=bug.fingerprint.stage,
        operators=frozenset(facts.get("operators") or ()),
        dtypes=frozenset(facts.get("dtypes") or ()),
        empty=bool(facts.get("empty")),
        later_call=bool(facts.get("later_call")),
        settings=frozenset(facts.get("settings") or ()),
        options=options,
        answers=answers_from(facts.get("answers")),
    )


def causes_of(bug: Bug, library: Library | None = None) -> tuple[Cause, ...]:
    """The causes that explain a bug: all of one finding, and nothing that was measured of the others contradicts.
    Experiments are made on the first finding alone."""
    known = builtin() if library is None else library
    seen = [sighting_in(bug, finding) for finding in bug.findings]
    return tuple(
        cause
        for cause in known
        if cause.compiler == bug.fingerprint.backend
        and any(explains(cause, one) for one in seen)
        and all(may_explain(cause, one) for one in seen)
    )


def is_accepted(bug: Bug, library: Library | None = None) -> bool:
    """Does a cause explain it that the user has accepted?"""
    return any(cause.accepted for cause in causes_of(bug, library))


def accepted_among(bugs: Iterable[Bug], library: Library | None = None) -> frozenset[str]:
    return frozenset(bug.id for bug in bugs if is_accepted(bug, library))


def by_cause(bugs: Sequence[Bug], library: Library | None = None) -> list[tuple[Cause | None, list[Bug]]]:
    """Bugs in the order of a list, those of one cause together where the first of them stands, and those without a
    cause too. A bug that is less serious overtakes none for that: a cause of bugs of several kinds stands there
    several times."""
    found: list[tuple[Cause | None, list[Bug]]] = []
    for _, equally_serious in groupby(bugs, key=_rank):
        together: dict[str, tuple[Cause | None, list[Bug]]] = {}
        for bug in equally_serious:
            cause = next(iter(causes_of(bug, library)), None)
            together.setdefault(cause.id if cause else "", (cause, []))[1].append(bug)
        for cause, some in together.values():
            if found and found[-1][0] is cause:
                found[-1][1].extend(some)
            else:
                found.append((cause, some))
    return found


def _rank(bug: Bug) -> tuple[Status, int]:
    status = Status.NEW if bug.status is Status.CONFIRMED else bug.status
    return status, severity(bug.fingerprint.kind, ordinary=True)


def words_of(cause: Cause) -> str:
    """A cause as one line beside a bug: what it is, where it was reported, why it is debatable."""
    told = f"cause: {cause.title} ({cause.id})"
    if cause.reported:
        told += f"; reported: {cause.reported}"
    if cause.accepted:
        told += "; accepted, does not count"
    return f"{told}; debatable: {cause.debatable}" if cause.debatable else told
