"""What was found by an examination in another process, recorded in the store of the hunt."""

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
    """The store of a hunt whose suspects are examined elsewhere. Safe to use from several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known = {bug.id: slim(bug) for bug in sound_bugs(store)}

    def known(self, target: Target) -> tuple[Bug, ...]:
        """The bugs of a compiler, as an examiner has to know them."""
        with self._lock:
            return tuple(bug for bug in self._known.values() if bug.fingerprint.backend == target.backend)

    def note(self, bugs: Iterable[Bug]) -> None:
        """The hunt has recorded these by itself: whoever examines elsewhere must know them too."""
        with self._lock:
            self._known |= {bug.id: slim(self._store.bug(bug.id)) for bug in bugs}

    def taken(self, there: ExaminedApart) -> ExaminedSuspect:
        """Record here what was found there. One bug may have been found by two at once: it is new once."""
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
