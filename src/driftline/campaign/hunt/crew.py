"""Carries out the orders of a hunt: on processes of this machine, or on the nodes of a cluster (`cluster/`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from driftline.backends import BACKENDS
from driftline.campaign.hunt.foremen import FEWEST_JOBS, Foremen
from driftline.campaign.hunt.turns import screened
from driftline.campaign.orders import SuspectOrder, TurnOrder
from driftline.campaign.triage.examination import ExaminedSuspect, Triage
from driftline.campaign.triage.matching import Matching
from driftline.causes import Library
from driftline.checking.batch import Screened
from driftline.checking.checker import Checker
from driftline.checking.kinds import HOME, worker_for_framework, worker_for_target
from driftline.checking.reference_sources import PLAYER
from driftline.core.case import CheckOptions
from driftline.core.target import Target
from driftline.execute.pool import Pool, WorkerKind
from driftline.store import Store
from driftline.store.hunts import Suspect


def start_seconds(target: Target, form: str) -> float:
    """Return the estimated seconds to start a lane when nothing is imported yet."""
    families = {BACKENDS.get(HOME[form]).family_name, BACKENDS.get(target.backend).family_name}
    return sum(BACKENDS.get(family).start_seconds for family in families)


class Crew(Protocol):
    """Carries out orders of several threads. Raises the exceptions of a `Pool`."""

    @property
    def jobs(self) -> int:
        """The number of orders that the crew can carry out at the same time."""

    def begin(self, lanes: Sequence[tuple[Target, str]], plugins: Sequence[str], going: Callable[[], bool]) -> None:
        """Announce work on these targets, each with the form of its programs. Preparations end once `going` returns
        False."""

    def ready(self, target: Target, form: str) -> bool:
        """True if an order for this target can be carried out at once, with nothing to import first."""

    def screen(self, order: TurnOrder) -> list[Screened]:
        """Return one result for each request of a turn. After an interruption, the list may be shorter."""

    def examine(self, order: SuspectOrder) -> ExaminedSuspect: ...

    def match(
        self, suspects: Sequence[Suspect], target: Target, form: str, options: CheckOptions
    ) -> Iterator[tuple[Suspect, ExaminedSuspect]]:
        """Yield the suspects that known bugs explain, with the results."""

    def interrupt(self) -> None:
        """End the running orders; threads that wait for them get `PoolInterrupted`."""


class LocalCrew:
    """The processes of this machine. With many processes, `foremen` carry out the turns; suspects are examined in the
    hunt's own process, which holds the store."""

    def __init__(
        self, pool: Pool, store: Store, jobs: int, library: Library | None = None, foremen: Foremen | None = None
    ) -> None:
        self.jobs = jobs
        self.library = library
        self._pool = pool
        self._foremen = foremen or Foremen(0)
        self._triage = Triage(Checker(pool, jobs=1), store, library)
        self._kinds: dict[tuple[Target, str], set[WorkerKind]] = {}
        self._cold: set[WorkerKind] = set()  # kinds of worker that a thread is importing, or will import

    def begin(self, lanes: Sequence[tuple[Target, str]], plugins: Sequence[str], going: Callable[[], bool]) -> None:
        """Import the compilers while the first programs are made, as far as there are processors for both."""
        self._pool.bound(self.jobs)
        kinds: dict[WorkerKind, None] = {}
        waiting_for = ""  # another reference, which helps to decide whether a wrong result is a bug
        for target, form in lanes:
            own = (
                worker_for_framework(form, tuple(plugins)),
                worker_for_target(BACKENDS.get(target.backend), target, tuple(plugins)),
            )
            self._kinds[target, form] = set(own)
            if waiting_for and form != "onnx":
                kinds |= {worker_for_framework(waiting_for, tuple(plugins)): None}
            waiting_for = PLAYER.home if form == "onnx" else waiting_for
            kinds |= dict.fromkeys(own)
        if waiting_for and self.jobs >= FEWEST_JOBS:  # suspects come soon, and wait for it
            kinds |= {worker_for_framework(waiting_for, tuple(plugins)): None}
        if self._foremen:
            self._foremen.begin([(target, sorted(self._kinds[target, form], key=str)) for target, form in lanes])
        if self.jobs < 2:
            return
        self._cold = set(kinds)
        waiting = iter(kinds)
        lock = threading.Lock()

        def warm() -> None:
            while going():
                with lock:
                    kind = next(waiting, None)
                if kind is None:
                    return
                try:
                    self._pool.warm(kind)
                except BaseException:
                    self._cold = set()  # the others are imported by the first turn that needs them
                    raise
                with lock:
                    self._cold = self._cold - {kind}  # a new set, since another thread may be reading the old one

        for number in range(self.jobs // 2):
            threading.Thread(target=warm, name=f"warm {number}", daemon=True).start()

    def ready(self, target: Target, form: str) -> bool:
        kinds = self._kinds.get((target, form), set())
        if self._foremen.serve(target):
            return self._foremen.ready(target, kinds)
        return self._cold.isdisjoint(kinds)

    def screen(self, order: TurnOrder) -> list[Screened]:
        results = self._foremen.screen(order, self._kinds.get((order.target, order.form), set()))
        return screened(self._pool, order) if results is None else results

    def examine(self, order: SuspectOrder) -> ExaminedSuspect:
        return self._triage.examine(order)

    def match(
        self, suspects: Sequence[Suspect], target: Target, form: str, options: CheckOptions
    ) -> Iterator[tuple[Suspect, ExaminedSuspect]]:
        return Matching(self._triage, target, form, options, self.jobs).settled(suspects)

    def interrupt(self) -> None:
        self._pool.interrupt()
        self._foremen.interrupt()
