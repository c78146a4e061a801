"""Settles failures of schedules: reduces, confirms and stores each, or recognises it as a known bug."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from driftline.core.execution import Stage
from driftline.core.verdict import Kind
from driftline.events import BugSeen, Listener, ignore
from driftline.schedules.asking import ScheduleAsker
from driftline.schedules.naming import FailureLike, fingerprint
from driftline.schedules.recording import record
from driftline.schedules.reducing import Perform, TraceReduction
from driftline.schedules.requests import Performed
from driftline.schedules.target import unoptimised
from driftline.schedules.trace import Trace
from driftline.store import Bug, Store

_SLOW = (Kind.TIMEOUT, Kind.OOM)  # to make these smaller would take the time of the whole hunt
_ALWAYS = 3  # times in a row that a failure was reduced to the same bug before that is taken for granted
PATIENCE = 240.0  # seconds after which a schedule that was too slow in its batch is too slow indeed
CONFIRMATIONS = 3  # runs in fresh processes, of which one must fail: a race does not show every time


def _at_o0(trace: Trace) -> Trace:
    """Return the trace for a build without LLVM's optimisations, which may hide the failure."""
    return replace(trace, target=json.dumps(unoptimised(trace.target)))


class Settling:
    """The known failures of one hunt. Thread-safe: `lock` guards the store and `bugs`, the ids found so far."""

    def __init__(
        self,
        asker: ScheduleAsker,
        patient: ScheduleAsker,
        store: Store,
        lock: threading.Lock,
        bugs: set[str],
        listener: Listener = ignore,
    ) -> None:
        self._asker = asker
        self._patient = patient
        self._store = store
        self._lock = lock
        self._bugs = bugs
        self._listener = listener
        self._known: dict[FailureLike, str] = {}  # failures that tell their bug without being reduced
        self._steps: defaultdict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)  # of bugs, by stage and kind
        self._smaller: defaultdict[str, list[str]] = defaultdict(list)  # name -> bugs of a simpler function, in turn

    def settle(self, failing: Performed) -> str:
        """Return the bug that a failure shows, or an empty string if a fresh process does not confirm it."""
        like = FailureLike.of(failing)
        with self._lock:
            if like.telling and like in self._known:
                return self._known[like]
        confirmed, smallest = None, None
        for optimised in self._ways(failing):
            reduction = TraceReduction(self._performer(failing, optimised), failing)
            for known in self._reduced(reduction):
                if known:
                    return known
            if confirmed := self._confirmed(reduction.best.trace, like):
                break
            smallest = smallest or (None if optimised else reduction.best.trace)
        if not confirmed and smallest:
            confirmed = self._confirmed(_at_o0(smallest), like)
        if not confirmed:
            return ""
        with self._lock:
            bug = self._record(confirmed, failing.trace, reduction.asked)
            self._known[like] = bug.id
            self._steps[failing.stage, failing.kind].add(confirmed.trace.primitives)
            self._bugs.add(bug.id)
        return bug.id

    def _reduced(self, reduction: TraceReduction) -> Iterator[str]:
        """Reduce a failure in stages; after each, yield the id of the bug of this hunt that it is recognised as, or an
        empty string."""
        if reduction.best.kind in _SLOW:
            return
        with self._lock:
            known = set(self._steps[reduction.best.stage, reduction.best.kind])
        reduction.known_steps(known)
        yield self._bug_of(reduction.best)
        reduction.fewer_steps()
        yield self._bug_of(reduction.best)
        larger = fingerprint(reduction.best).bug_id
        reduction.simpler_function()
        known_as = self._bug_of(reduction.best)
        with self._lock:
            self._smaller[larger].append(known_as)
        yield known_as
        reduction.all_else()
        yield self._bug_of(reduction.best)

    def _bug_of(self, found: Performed) -> str:
        """Return the hunt's bug with the fingerprint of this failure, or the one that failures with this fingerprint
        always reduced to; else an empty string."""
        name = fingerprint(found).bug_id
        with self._lock:
            if name in self._bugs:
                return name
            before = self._smaller[name][-_ALWAYS:]
        return before[0] if len(before) == _ALWAYS and len(set(before)) == 1 else ""

    def _record(self, found: Performed, origin: Trace, asked: int) -> Bug:
        new = not self._store.has_bug(fingerprint(found).bug_id)
        bug = record(self._store, found, origin, asked)
        if new:
            self._listener(BugSeen(bug, new=True, how=", ".join(found.trace.primitives)))
        return bug

    def _confirmed(self, trace: Trace, like: FailureLike) -> Performed | None:
        asker = self._patient if like.kind == Kind.TIMEOUT else self._asker  # a busy machine is slow, too
        for _ in range(CONFIRMATIONS):
            (again,) = asker.perform([trace], fresh=True)
            if again.fails and FailureLike.of(again) == like:
                return again
        return None

    def _ways(self, failing: Performed) -> Iterator[bool]:
        """Yield whether LLVM optimises while smaller traces are tried: first without, which is faster, if the failure
        shows so; then with, in case the reduced trace only fails without."""
        if failing.stage != Stage.SCHEDULE and failing.kind not in _SLOW:
            (plain,) = self._asker.perform([failing.trace], optimised=False)
            if plain.fails and FailureLike.of(plain) == FailureLike.of(failing):
                yield False
        yield True

    def _performer(self, failing: Performed, optimised: bool) -> Perform:
        build = failing.stage != Stage.SCHEDULE  # a failure of scheduling needs no compilation to be seen
        return lambda traces, lenient: self._asker.perform_once(
            traces, lenient=lenient, build=build, optimised=optimised
        )
