"""Look up the causes of stored bugs. The library is searched each time; causes are not kept in the store.

The facts that this needs of a finding (operators, dtypes, processor, answers of experiments) are stored when the
finding is recorded. Findings of older stores lack them, and conditions on these facts do not hold for them.
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
    """Return the facts of a stored finding that causes are matched against."""
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
    """Return the causes that explain at least one finding of a bug and that no other finding contradicts. Experiments
    are run on the first finding only.
    """
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
    """True if a cause that explains the bug is marked as accepted."""
    return any(cause.accepted for cause in causes_of(bug, library))


def accepted_among(bugs: Iterable[Bug], library: Library | None = None) -> frozenset[str]:
    """Return the ids of the bugs that are explained by an accepted cause."""
    return frozenset(bug.id for bug in bugs if is_accepted(bug, library))


def by_cause(bugs: Sequence[Bug], library: Library | None = None) -> list[tuple[Cause | None, list[Bug]]]:
    """Group bugs by cause, keeping the order of the list.

    A group stands where its first bug stands; bugs without a cause form a group too. Bugs are grouped only among those
    of equal status and severity, so a cause may occur several times in the result.
    """
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
    """Describe a cause in one line for display beside a bug: its title, where it was reported, why it is debatable."""
    told = f"cause: {cause.title} ({cause.id})"
    if cause.reported:
        told += f"; reported: {cause.reported}"
    if cause.accepted:
        told += "; accepted, does not count"
    return f"{told}; debatable: {cause.debatable}" if cause.debatable else told
