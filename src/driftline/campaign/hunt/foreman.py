"""A process beside the hunt's own that carries out turns with its own pool (`foremen.py` is the other end).

Messages are pickled: both ends are Driftline, and nobody else holds the connection. The process ends when the hunt
ends, in whatever way, since the connection is closed then.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from driftline.campaign.hunt.carried import Carried, carried_out
from driftline.campaign.hunt.turns import screened
from driftline.campaign.orders import TurnOrder
from driftline.checking.batch import Screened
from driftline.execute.pool import Pool, WorkerKind
from driftline.execute.slots import PlaceTime, one_order

# Called with a file descriptor and the number of workers. As for workers, nothing is imported from the working folder.
COMMAND = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; from driftline.campaign.hunt.foreman import main; main()"
)


@dataclass(frozen=True)
class WarmOrder:
    """An order to import the modules that these kinds of workers need, one after the other."""

    kinds: tuple[WorkerKind, ...]


@dataclass(frozen=True)
class NumberedTurn:
    number: int
    order: TurnOrder


@dataclass(frozen=True)
class InterruptOrder:
    """An order to end the running turns."""


@dataclass(frozen=True)
class KindWarmed:
    kind: WorkerKind


@dataclass(frozen=True)
class TurnAnswer:
    number: int
    carried: Carried[list[Screened]]
    seconds: float  # during which its tasks held workers


def main() -> None:
    """Serve the hunt until it closes the connection, then end the process."""
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    with Pool() as pool:
        pool.bound(int(sys.argv[2]))
        _Foreman(connection, pool).serve()
    os._exit(0)  # threads that still wait for a worker are not joined


class _Foreman:
    """The process's end of the connection: receives orders, and carries out each in a thread."""

    def __init__(self, connection: Connection[Any, Any], pool: Pool) -> None:
        self._connection = connection
        self._pool = pool
        self._sending = threading.Lock()

    def serve(self) -> None:
        """Carry out the hunt's messages until the connection is closed."""
        for message in self._messages():
            if isinstance(message, InterruptOrder):
                self._pool.interrupt()
            elif isinstance(message, WarmOrder):
                self._beside(self._warm, message)
            else:
                self._beside(self._carry_out, message)

    def _messages(self) -> Iterator[Any]:
        while True:
            try:
                yield self._connection.recv()
            except (EOFError, OSError):  # the hunt is over
                return

    @staticmethod
    def _beside(work: Callable[[Any], None], message: Any) -> None:
        threading.Thread(target=work, args=(message,), daemon=True).start()

    def _warm(self, message: WarmOrder) -> None:
        for kind in message.kinds:
            self._pool.warm(kind)
            self._answer(KindWarmed(kind))

    def _carry_out(self, message: NumberedTurn) -> None:
        order, place_time = message.order, PlaceTime()
        try:
            with one_order(place_time):
                carried = carried_out(lambda: screened(self._pool, order), order.options.plugins)
        except Exception as error:  # a fault of Driftline ends only this turn, and is reported
            carried = Carried(internal=f"{type(error).__name__}: {error}")
        try:
            self._answer(TurnAnswer(message.number, carried, place_time.seconds))
        except Exception as error:  # the answer cannot be sent: report that instead, so that no thread waits for ever
            told = Carried[list[Screened]](internal=f"{type(error).__name__}: {error}")
            self._answer(TurnAnswer(message.number, told, place_time.seconds))

    def _answer(self, answer: KindWarmed | TurnAnswer) -> None:
        with contextlib.suppress(OSError), self._sending:  # the hunt no longer waits for the answer
            self._connection.send(answer)
