"""A process that examines suspects, for hunts on many processors.

Workers judge what is screened, but an examination judges in the process that asks for it, and Python lets only one
thread of a process compute at a time. With 16 jobs on ONNX Runtime the hunt's own process was busy for 26 of 30 s, a
third of that with examinations, while processors waited for it. An examiner has a pool of its own, a few workers beside
those of the hunt; what it finds goes to the hunt, which alone writes to the store (`taking.py`). It has to import the
compilers once more, and is asked about those only that it has imported: until then, the hunt examines by itself.

It is one of ours, and is started by us: the two speak in pickled messages.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection

from driftline.campaign.apart import Carried, ExaminedApart, carried_out, examine_apart
from driftline.campaign.orders import SuspectOrder
from driftline.causes import Library
from driftline.execute.pool import Pool, WorkerKind
from driftline.store import Bug

_GONE = (EOFError, OSError)
# As for workers, the working folder is no place to import from: a file there may have the name of a module.
_BOOTSTRAP = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; from driftline.campaign.examiner import main; main()"
)


class ExaminerLost(Exception):
    """It has ended, for whatever reason."""


@dataclass(frozen=True)
class _Start:
    jobs: int
    library: Library | None
    kinds: tuple[WorkerKind, ...]  # what to import, in this order


@dataclass(frozen=True)
class _AskedExaminer:
    number: int
    order: SuspectOrder
    known: tuple[Bug, ...]


@dataclass(frozen=True)
class _Answer:
    number: int
    carried: Carried[ExaminedApart]


@dataclass(frozen=True)
class _Imported:
    kind: WorkerKind


class Examiner:
    """The hunt's side. Safe to use from several threads, which all wait for their own answers."""

    def __init__(self, jobs: int, library: Library | None, kinds: Iterable[WorkerKind] = ()) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOTSTRAP, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the hunt, which ends this one
            )
        self._connection = Connection(os.dup(self._socket.fileno()))
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Carried[ExaminedApart]]] = {}
        self._imported: frozenset[WorkerKind] = frozenset()
        self._is_lost = False
        with contextlib.suppress(ExaminerLost):  # the hunt can do without it
            self._send(_Start(jobs, library, tuple(kinds)))
        threading.Thread(target=self._listen, name="examiner", daemon=True).start()

    def knows(self, kinds: Iterable[WorkerKind]) -> bool:
        """Has it imported what such workers need?"""
        return self._imported.issuperset(kinds)

    def examine(self, order: SuspectOrder, known: tuple[Bug, ...]) -> ExaminedApart:
        """Raises what a `Pool` raises, and `ExaminerLost`."""
        asked = _AskedExaminer(next(self._numbers), order, known)
        answer: Future[Carried[ExaminedApart]] = Future()
        with self._lock:
            self._waiting[asked.number] = answer
        self._send(asked)
        return answer.result().unwrap()

    def interrupt(self) -> None:
        """End what it is at; who waits for it gets a `PoolInterrupted`."""
        with contextlib.suppress(ExaminerLost):
            self._send(None)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # both sides wake up, which `close` does not bring about
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10.0)
        self._process.kill()
        self._process.wait()

    def _send(self, message: object) -> None:
        try:
            with self._lock:
                if self._is_lost:
                    raise ExaminerLost
                self._connection.send(message)
        except _GONE as error:
            raise ExaminerLost from error

    def _listen(self) -> None:
        try:
            with contextlib.suppress(*_GONE):
                while True:
                    told: _Imported | _Answer = self._connection.recv()
                    if isinstance(told, _Imported):
                        self._imported = self._imported | {told.kind}
                        continue
                    with self._lock:
                        answer = self._waiting.pop(told.number)
                    answer.set_result(told.carried)
        finally:  # also after a message that cannot be read: nobody may wait for ever
            with self._lock:
                self._is_lost = True
                left = list(self._waiting.values())
            self._connection.close()
            for answer in left:
                answer.set_exception(ExaminerLost())


def _serve(connection: Connection) -> None:
    """The examiner's side: until the hunt hangs up, or is gone."""
    start: _Start = connection.recv()
    lock = threading.Lock()

    def tell(message: _Imported | _Answer) -> None:
        with lock, contextlib.suppress(*_GONE):
            connection.send(message)

    with Pool() as pool, ThreadPoolExecutor(2 * start.jobs) as threads:
        pool.bound(start.jobs)

        def imports() -> None:
            for kind in start.kinds:
                pool.warm(kind)
                tell(_Imported(kind))

        def examine(asked: _AskedExaminer) -> None:
            plugins = asked.order.options.plugins
            try:
                carried = carried_out(lambda: examine_apart(pool, asked.order, start.library, asked.known), plugins)
            except Exception as error:  # a fault of ours: of this suspect, not of the others
                carried = Carried(internal=f"{type(error).__name__}: {error}")
            tell(_Answer(asked.number, carried))

        threading.Thread(target=imports, name="imports", daemon=True).start()
        with contextlib.suppress(*_GONE):
            while True:
                asked: _AskedExaminer | None = connection.recv()
                if asked is None:
                    pool.interrupt()
                else:
                    threads.submit(examine, asked)
        threads.shutdown(wait=False, cancel_futures=True)
        pool.close()


def main() -> None:
    _serve(Connection(int(sys.argv[1])))
    os._exit(0)  # threads that still wait for a worker do not matter any more
