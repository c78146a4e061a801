"""The nodes of a Ray cluster, as the crew of a hunt.

Every order is a Ray task on one processor. Ray decides where it runs, and runs it again elsewhere when its node dies:
an order holds all that it needs, so the hunt does not notice. This process alone writes to the store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from driftline.campaign.hunt.carried import Carried
from driftline.campaign.orders import SuspectOrder, TurnOrder
from driftline.campaign.triage.examination import ExaminedSuspect
from driftline.causes import Library
from driftline.checking.batch import Screened
from driftline.checking.precision import runs_on_gpu
from driftline.cluster.apart import ExaminedApart
from driftline.cluster.node import examine_there, screen_there
from driftline.cluster.resources import pinned
from driftline.cluster.taking import Taker
from driftline.core.case import CheckOptions
from driftline.core.errors import InternalError
from driftline.core.target import Target
from driftline.execute.pool import PoolInterrupted
from driftline.store import Store
from driftline.store.hunts import Suspect

RETRIES = 8  # of an order whose node died
SHARE_OF_GPU = 0.25  # of one, for a target that runs there: several keep it busy
POLL = 0.5  # seconds


class RayCrew:
    """Hands orders to the cluster that this process has joined (`joined.py`)."""

    def __init__(self, store: Store, library: Library | None) -> None:
        self._taker = Taker(store)
        self._library = ray.put(library)
        self._lock = threading.Lock()
        self._interruptions = 0
        self._screen = ray.remote(screen_there)
        self._examine = ray.remote(examine_there)

        self.jobs = max(1, int(ray.cluster_resources().get("CPU", 1)))  # an order takes one processor

    def begin(self, lanes: Sequence[tuple[Target, str]], plugins: Sequence[str], going: Callable[[], bool]) -> None:
        for target, _ in lanes:
            pinned(target, ray.cluster_resources())  # fail early for a compiler that no node has

    def ready(self, target: Target, form: str) -> bool:
        return True  # each node imports the compilers of its orders

    def screen(self, order: TurnOrder) -> list[Screened]:
        order = replace(order, pieces=1)  # a task has one processor
        results: list[Screened] = self._value(self._on_nodes(self._screen, order.target).remote(order))
        return results

    def examine(self, order: SuspectOrder) -> ExaminedSuspect:
        task = self._on_nodes(self._examine, order.target)
        there: ExaminedApart = self._value(task.remote(order, self._library, self._taker.known(order.target)))
        return self._taker.taken(there)

    def match(
        self, suspects: Sequence[Suspect], target: Target, form: str, options: CheckOptions
    ) -> Iterator[tuple[Suspect, ExaminedSuspect]]:
        """Return an empty iterator: at the end of its time a hunt leaves the cluster to others. `--resume` examines the
        suspects."""
        return iter(())

    def interrupt(self) -> None:
        with self._lock:
            self._interruptions += 1

    def _on_nodes(self, task: Any, target: Target) -> Any:
        return task.options(
            num_cpus=1,
            num_gpus=SHARE_OF_GPU if runs_on_gpu(target) else 0,
            resources=pinned(target, ray.cluster_resources()),
            max_retries=RETRIES,
        )

    def _value(self, answer: Any) -> Any:
        began = self._interruptions
        try:
            while not ray.wait([answer], timeout=POLL)[0]:
                if self._interruptions != began:
                    ray.cancel(answer, force=True)  # its workers end with it, whatever a compiler is at
                    raise PoolInterrupted("the job was interrupted")
            carried: Carried[Any] = ray.get(answer)
        except RayTaskError as error:  # the order itself raised this: to run it again would not help
            raise InternalError(f"An order failed on its node: {str(error).strip().splitlines()[-1]}") from error
        except RayError as error:
            raise InternalError(
                f"The cluster lost an order {RETRIES + 1} times: {str(error).splitlines()[0]}"
            ) from error
        return carried.unwrap()
