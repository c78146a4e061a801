"""Records the findings of examinations in other processes in the store of the hunt."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from driftline.campaign.triage.examination import ExaminedSuspect
from driftline.cluster.apart import ExaminedApart
from driftline.core.target import Target
from driftline.core.verdict import Kind
from driftline.store import Bug, Store
from driftline.store.store import sound_bugs


class Taker:
    """The store of a hunt whose suspects are examined in other processes. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known = {bug.id: slim(bug) for bug in sound_bugs(store)}

    def known(self, target: Target) -> tuple[Bug, ...]:
        """Return the known bugs of a target's compiler, in the short form that an examiner needs (`slim`)."""
        with self._lock:
            return tuple(bug for bug in self._known.values() if bug.fingerprint.backend == target.backend)

    def note(self, bugs: Iterable[Bug]) -> None:
        """Add bugs that the hunt recorded itself to the known ones, so that examiners elsewhere see them too."""
        with self._lock:
            self._known |= {bug.id: slim(self._store.bug(bug.id)) for bug in bugs}

    def taken(self, there: ExaminedApart) -> ExaminedSuspect:
        """Record the findings of an examination here. A bug that two examinations found counts as new once."""
        if not there.files:
            bugs = tuple((self._store.bug(bug.id), False) for bug, _ in there.examined.bugs)
            return replace(there.examined, bugs=bugs)
        found = []
        scratch = TemporaryDirectory(prefix="driftline-taken-")
        with scratch as folder, self._lock, Store.open(there.unpack(Path(folder))) as theirs:
            for bug, _ in there.examined.bugs:
                new = not self._store.has_bug(bug.id)
                kept = take_over(theirs, self._store, bug.id) if theirs.has_bug(bug.id) else self._store.bug(bug.id)
                self._known[kept.id] = slim(kept)
                found.append((kept, new))
        return replace(there.examined, bugs=tuple(found))


def take_over(theirs: Store, mine: Store, name: str) -> Bug:
    """Copy a bug with its findings from `theirs` to `mine`; findings that are already there stay unchanged."""
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
    """Return the bug with only what an examiner needs: id, status, number of findings, and the evidence of errors."""
    error = bug.fingerprint.kind == Kind.ERROR
    kept = [{"evidence": one.verdict.get("evidence")} if error else {} for one in bug.findings]
    findings = [replace(one, verdict=verdict, execution={}) for one, verdict in zip(bug.findings, kept, strict=True)]
    return replace(bug, findings=tuple(findings))
