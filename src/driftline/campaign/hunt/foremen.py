"""Starts several processes (foremen) that carry out turns beside the hunt's own, on machines with many processors.

A Python process lets only one thread compute at a time, and 16 workers wait for it: with four foremen, a hunt on ONNX
Runtime judged 27 % more programs on 16 cores (`benchmarks/scaling.py`). Each foreman serves a few workers, and the hunt
serves the foremen: it sends whole turns and receives their verdicts.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from driftline.campaign.hunt.foreman import COMMAND, InterruptOrder, KindWarmed, NumberedTurn, TurnAnswer, WarmOrder
from driftline.campaign.orders import TurnOrder
from driftline.checking.batch import Screened
from driftline.core.target import Target
from driftline.execute.pool import WorkerKind
from driftline.execute.slots import time_of_this_order

PLACES = 4  # workers of each foreman, or a few more if the jobs are not a multiple of it
FEWEST_JOBS = 8  # with fewer jobs, the hunt's own process is fast enough
SHARE = 2  # foremen that serve a lane if there are as many lanes as foremen: each has to import its compiler
_PATIENCE = 15.0  # seconds for a foreman to answer when it is interrupted
_BETWEEN = 0.25  # seconds between two interruptions: a foreman that does not read must not block the writer
_END = 10.0  # seconds for all foremen to end their workers


class ForemanLost(Exception):
    """A foreman died. Its turns are carried out by another process, with the same results."""


class Foremen:
    """The foremen of a hunt: started when it begins, ended with the `with` block. With few jobs there are none."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._count = jobs // PLACES if jobs >= FEWEST_JOBS else 0
        self._all: list[_Handle] = []
        self._serving: dict[Target, list[_Handle]] = {}

    def __enter__(self) -> Foremen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for foreman in self._all:
            foreman.close()
        end = time.monotonic() + _END
        for foreman in self._all:
            foreman.wait(end)

    def __bool__(self) -> bool:
        return self._count > 0

    def begin(self, lanes: Sequence[tuple[Target, Sequence[WorkerKind]]]) -> None:
        """Assign foremen to the lanes and let them import the workers' modules. With few lanes all foremen serve each
        lane; with many, only some do, so that not every foreman imports every compiler."""
        if not self._all:
            places, more = divmod(self._jobs, self._count) if self._count else (0, 0)
            self._all = [_Handle(places + (number < more)) for number in range(self._count)]
        each = min(self._count, -(-SHARE * self._count // max(1, len(lanes))))
        for at, (target, _) in enumerate(lanes):
            self._serving[target] = [self._all[(at * each + n) % self._count] for n in range(each)]
        for foreman in self._all:
            kinds = [kind for target, own in lanes if foreman in self._serving[target] for kind in own]
            foreman.warm(tuple(dict.fromkeys(kinds)))

    def serve(self, target: Target) -> bool:
        """True if a foreman that serves this target is alive."""
        return any(foreman.lives for foreman in self._serving.get(target, ()))

    def ready(self, target: Target, kinds: set[WorkerKind]) -> bool:
        """True if a living foreman has imported everything that the target needs."""
        return any(kinds <= foreman.imported for foreman in self._serving.get(target, ()) if foreman.lives)

    def screen(self, order: TurnOrder, kinds: set[WorkerKind]) -> list[Screened] | None:
        """Let a foreman carry out a turn and return its results; None if all foremen died."""
        order = replace(order, pieces=min(order.pieces, PLACES))
        while living := [foreman for foreman in self._serving.get(order.target, self._all) if foreman.lives]:
            ready = [foreman for foreman in living if kinds <= foreman.imported]
            idle = [foreman for foreman in self._all if foreman.lives and not foreman.in_hand]
            if all(foreman.in_hand >= foreman.places for foreman in living):  # other lanes lend their idle foremen
                ready = idle or ready
            try:
                return min(ready or living, key=lambda foreman: foreman.in_hand).carry_out(order)
            except ForemanLost:
                continue
        return None

    def interrupt(self) -> None:
        for foreman in self._all:
            foreman.interrupt()


class _Handle:
    """The hunt's end of one foreman. Safe to use from several threads."""

    _numbers = itertools.count()

    def __init__(self, places: int) -> None:
        self.places = places
        self._interrupted = math.inf  # when the turns in hand were first interrupted
        self._told = 0.0  # when they were last interrupted
        self.imported: frozenset[WorkerKind] = frozenset()
        self._waiting: dict[int, Future[TurnAnswer]] = {}
        self._lock = threading.Lock()  # guards the waiting turns
        self._sending = threading.Lock()
        own, theirs = socket.socketpair()
        self._socket = own.dup()  # a connection that another thread reads from is closed by this alone
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, str(theirs.fileno()), str(places)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the hunt, not for it
            )
        self._connection: Connection[Any, Any] = Connection(own.detach())
        self.lives = True
        threading.Thread(target=self._listen, name="foreman", daemon=True).start()

    @property
    def in_hand(self) -> int:
        """The number of turns without an answer."""
        return len(self._waiting)

    def warm(self, kinds: tuple[WorkerKind, ...]) -> None:
        self._send(WarmOrder(kinds))

    def carry_out(self, order: TurnOrder) -> list[Screened]:
        """Send a turn to the foreman and wait for its results. Raises `ForemanLost` if it dies."""
        number, answer = next(self._numbers), Future[TurnAnswer]()
        with self._lock:
            if not self.lives:
                raise ForemanLost
            if not self._waiting:
                self._interrupted = math.inf
            self._waiting[number] = answer
        self._send(NumberedTurn(number, order))
        found = answer.result()
        time_of_this_order().add(found.seconds)
        return found.carried.unwrap()

    def interrupt(self) -> None:
        """Ask the foreman to end its turns. One that still has not answered after a while is killed."""
        now = time.monotonic()
        if not self._waiting or now < self._told + _BETWEEN:
            return
        self._interrupted, self._told = min(self._interrupted, now), now
        if now - self._interrupted > _PATIENCE:
            self._process.kill()
        else:
            self._send(InterruptOrder())

    def close(self) -> None:
        """Close the connection, which makes the foreman end its workers and itself."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def wait(self, end: float) -> None:
        """Wait for the foreman to end until the moment `end`, then kill it."""
        try:
            self._process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._socket.close()

    def _send(self, message: Any) -> None:
        try:
            with self._sending:
                self._connection.send(message)
        except OSError:  # the foreman is dead; the thread in `_listen` notices that
            pass

    def _listen(self) -> None:
        try:
            with contextlib.suppress(EOFError, OSError):
                while True:
                    self._take(self._connection.recv())
        finally:  # also after an unreadable message: no thread may wait for ever
            with self._lock:
                self.lives = False
                lost, self._waiting = list(self._waiting.values()), {}
            self._connection.close()
            for one in lost:
                one.set_exception(ForemanLost())

    def _take(self, answer: KindWarmed | TurnAnswer) -> None:
        if isinstance(answer, KindWarmed):
            self.imported |= {answer.kind}
            return
        with self._lock:
            waiting = self._waiting.pop(answer.number)
        waiting.set_result(answer)
