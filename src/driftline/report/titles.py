"""Return the titles of stored bugs, built by `core/titles.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from driftline.core.evidence import Evidence
from driftline.core.titles import KEY, SMALLEST, TitleFacts, named, title
from driftline.core.verdict import COSTS
from driftline.store import Bug
from driftline.store.rows import DAMAGE
from driftline.store.store import Finding

_WIDTHS = {"double": "float64", "half": "half precision"}


def title_of(bug: Bug, facts: TitleFacts | None = None) -> str:
    """Return the title of a stored bug, based on its smallest program if it was reduced. `facts`: used if the first
    finding stores none, as in older stores.
    """
    if not bug.findings:
        return bug.summary or f"{bug.fingerprint.kind}: {bug.fingerprint.detail}"
    finding = bug.findings[0]
    if smallest := smallest_of(finding):
        return title(bug.fingerprint.kind, bug.fingerprint.stage, smallest.evidence, smallest.facts)
    known = facts_in(finding.verdict) or facts or facts_of_name(bug.fingerprint.detail)
    if _says_nothing(finding.evidence) and bug.fingerprint.kind not in COSTS:
        return f"{named(known.operators)}: {bug.summary}" if known.operators else bug.summary
    return title(bug.fingerprint.kind, bug.fingerprint.stage, finding.evidence, known)


@dataclass(frozen=True)
class SmallestForm:
    """The smallest failing program of a finding, with what its title needs."""

    case_id: str
    evidence: Evidence
    facts: TitleFacts


def smallest_of(finding: Finding) -> SmallestForm | None:
    """Return the smallest failing program of a finding, or None if it was not reduced."""
    held = finding.verdict.get(SMALLEST)
    if not isinstance(held, Mapping) or not isinstance(held.get("evidence"), Mapping):
        return None
    facts = facts_in(held)
    if facts is None:
        return None
    try:
        return SmallestForm(str(held.get("case") or ""), Evidence.from_json(held["evidence"]), facts)
    except DAMAGE:  # the bug is shown as it was found
        return None


def _says_nothing(found: Evidence) -> bool:
    """True if the evidence is empty, as in older stores, which kept only a sentence."""
    return not (
        found.worst
        or found.wrong
        or found.said
        or found.exception
        or found.signal
        or found.wanted
        or found.stage
        or found.came
        or found.pooled_z
        or found.direction
    )


def facts_in(verdict: Mapping[str, object]) -> TitleFacts | None:
    """Return the facts that a finding stores, or None for a finding of an older store."""
    held = verdict.get(KEY)
    return TitleFacts.from_json(held) if isinstance(held, Mapping) else None


def facts_of_name(detail: str) -> TitleFacts:
    """Return the facts that the fingerprint of a bug contains: `abs+add with gradient of double`."""
    head, _, dtypes = detail.partition(" by pass ")[0].rpartition(" of ")
    words = (head.rpartition(" in ")[2] or detail).split(" ", 1)
    if not head or words[0] == "program":
        return TitleFacts()
    rest = (words[1],) if words[1:] else ()
    kinds = [_WIDTHS.get(name, name) for name in dtypes.split("+") if name not in ("float", "nothing")]
    return TitleFacts(tuple(words[0].split("+")), tuple(kinds), rest)
