"""Who carries out the orders of a hunt: the processes of this machine, or the nodes of a cluster (`cluster/`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from driftline.backends import BACKENDS
from driftline.campaign.matching import Matching
from driftline.campaign.orders import SuspectOrder, TurnOrder
from driftline.campaign.triage import ExaminedSuspect, Triage
from driftline.causes import Library
from driftline.checking.batch import Screened, Screening
from driftline.checking.checker import Checker
from driftline.checking.kinds import worker_for_target
from driftline.core.case import CheckOptions
from driftline.core.target import Target
from driftline.execute.pool import Pool
from driftline.store import Store
from driftline.store.hunts import Suspect


class Crew(Protocol):
    """Carries out orders, from several threads. Raises what a `Pool` raises."""

    @property
    def jobs(self) -> int:
        """How many orders it takes at a time."""

    def begin(self, targets: Sequence[Target], plugins: Sequence[str], going: Callable[[], bool]) -> None:
        """Work on these targets follows. What is done ahead of it ends when it is not `going` any more."""

    def screen(self, order: TurnOrder) -> list[Screened]:
        """One result for each request. Where it is interrupted, it may give those of the programs that were judged."""

    def examine(self, order: SuspectOrder) -> ExaminedSuspect: ...

    def match(
        self, suspects: Sequence[Suspect], target: Target, form: str, options: CheckOptions
    ) -> Iterator[tuple[Suspect, ExaminedSuspect]]:
        """Those of the suspects that known bugs explain."""

    def interrupt(self) -> None:
        """End what runs; who waits for it gets a `PoolInterrupted`."""


class LocalCrew:
    """The processes of this machine."""

    def __init__(self, pool: Pool, store: Store, jobs: int, library: Library | None = None) -> None:
        self.jobs = jobs
        self._pool = pool
        self._triage = Triage(Checker(pool, jobs=1), store, library)

    def begin(self, targets: Sequence[Target], plugins: Sequence[str], going: Callable[[], bool]) -> None:
        """Import the compilers while the first programs are made, as far as there are processors for both."""
        self._pool.bound(self.jobs)
        kinds = iter(dict.fromkeys(worker_for_target(BACKENDS.get(t.backend), t, tuple(plugins)) for t in targets))
        lock = threading.Lock()

        def warm() -> None:
            while going():
                with lock:
                    kind = next(kinds, None)
                if kind is None:
                    return
                self._pool.warm(kind)

        for number in range(self.jobs // 2):
            threading.Thread(target=warm, name=f"warm {number}", daemon=True).start()

    def screen(self, order: TurnOrder) -> list[Screened]:
        return screened(self._pool, order)

    def examine(self, order: SuspectOrder) -> ExaminedSuspect:
        return self._triage.examine(order)

    def match(
        self, suspects: Sequence[Suspect], target: Target, form: str, options: CheckOptions
    ) -> Iterator[tuple[Suspect, ExaminedSuspect]]:
        return Matching(self._triage, target, form, options, self.jobs).settled(suspects)

    def interrupt(self) -> None:
        self._pool.interrupt()


def screened(pool: Pool, order: TurnOrder) -> list[Screened]:
    """What the workers of a pool make of a turn."""
    options = order.options
    with Screening(
        pool,
        order.form,
        seed=options.seed,
        plugins=options.plugins,
        timeout=options.timeout,
        shards=order.pieces,
        explain=False,  # who examines a suspect asks for that
    ) as screening:
        return screening.screen(order.requests, order.target, heard=order.heard, cut=True)
