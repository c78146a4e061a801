"""What a node found, recorded in the store of the hunt."""

from __future__ import annotations

from dataclasses import replace

from driftline.core.target import Target
from driftline.core.verdict import Kind
from driftline.store import Bug, Store


def take_over(theirs: Store, mine: Store, name: str) -> Bug:
    """A bug of another store with its findings, recorded in this one; what is there already stays."""
    bug = theirs.bug(name)
    kept = bug
    for finding in bug.findings:
        for digest in (finding.verdict.get("artifacts") or {}).values():
            mine.put_tensors(theirs.load_tensors(digest))
        kept = mine.add_finding(
            bug.fingerprint,
            theirs.load_case(finding.case_id),
            Target.parse(finding.target),
            summary=bug.summary,
            status=bug.status,
            verdict=finding.verdict,
            execution=finding.execution,
            keep=True,
        )
    return kept


def slim(bug: Bug) -> Bug:
    """What an examiner asks of a known bug: its name, its status, how many findings it has; of an error, which."""
    error = bug.fingerprint.kind == Kind.ERROR
    kept = [{"evidence": one.verdict.get("evidence")} if error else {} for one in bug.findings]
    findings = [replace(one, verdict=verdict, execution={}) for one, verdict in zip(bug.findings, kept, strict=True)]
    return replace(bug, findings=tuple(findings))
