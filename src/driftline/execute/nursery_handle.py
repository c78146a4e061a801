"""The parent's side of a nursery, from which workers are forked, and of the keeper, which cleans up after the
parent."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable

from driftline.execute import limits
from driftline.execute.channel import ChannelClosed, ChannelTimeout, channel_pair
from driftline.execute.messages import (
    PARENT_OF_NURSERY,
    PARENT_OF_WORKER,
    Exited,
    Fork,
    Forked,
    Kill,
    NotReady,
    Serve,
    Warm,
)
from driftline.execute.processes import TAG, describe_exit, keeper_command, kill_tagged, kill_tree
from driftline.execute.task_report import PoolExpired
from driftline.execute.worker_handle import WorkerHandle, end_of_log
from driftline.execute.worker_kind import (
    BOOTSTRAP,
    Killed,
    WorkerKind,
    WorkerStartError,
    environment_of,
    package_root,
)
from driftline.execute.workspace import Workspace


class Keeper:
    """A small process that outlives this one by a moment, to kill its remaining processes if it is killed."""

    def __init__(self, workspace: Workspace) -> None:
        reading, self._lifeline = os.pipe()
        self._process = subprocess.Popen(
            keeper_command(reading, tag_of(workspace)),
            pass_fds=[reading],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,  # Ctrl-C must not end the keeper
        )
        os.close(reading)

    def close(self) -> None:
        os.close(self._lifeline)
        _wait_or_kill(self._process)


class NurseryHandle:
    """The parent's handle on a nursery process. A thread sorts the nursery's messages: which worker was forked, which
    has ended."""

    _numbers = itertools.count()

    def __init__(self, kind: WorkerKind, workspace: Workspace, start_timeout: float) -> None:
        self._kind = kind
        self._workspace = workspace
        self._start_timeout = start_timeout
        self._tag = f"{tag_of(workspace)}{next(self._numbers)}/"
        self._news = threading.Condition()
        self._forked: dict[int, int] = {}
        self._exits: dict[int, Exited] = {}
        self._living: set[int] = set()
        self._gone = False
        self._sending = threading.Lock()
        self._control, theirs = channel_pair(PARENT_OF_NURSERY)
        self._log = workspace.log_path()
        with theirs:
            self._process = subprocess.Popen(
                [kind.python, "-c", BOOTSTRAP, str(theirs.fileno()), str(self._log), package_root(kind.python)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**environment_of(kind, workspace), TAG: self._tag},
                cwd=workspace.nursery_folder,
                start_new_session=True,
            )

    def warm(self, end: Callable[[], float]) -> None:
        """Import the slow modules. Raises `WorkerStartError`; then the nursery must be destroyed."""
        kind, log = self._kind, self._log
        began = time.monotonic()
        try:
            self._control.send(Warm(kind.warm), timeout=limits.SEND_TIMEOUT)
            answer = self._control.receive(min(self._start_timeout, max(end() - began, 0.0)))
        except ChannelTimeout as error:
            if time.monotonic() >= end():
                raise PoolExpired("the time is over") from error
            raise WorkerStartError(
                f"{kind.name}: its modules were not imported within {self._start_timeout:g} s. {end_of_log(log)}"
            ) from error
        except ChannelClosed as error:
            ending = describe_exit(self._own_status())
            raise Killed(f"{kind.name}: the process died while starting ({ending}). {end_of_log(log)}") from error
        if isinstance(answer, NotReady):
            raise WorkerStartError(f"{kind.name}: {answer.error}")
        self._reader = threading.Thread(target=self._listen, name=f"nursery {kind.name}", daemon=True)
        self._reader.start()

    def interrupt(self) -> None:
        """End the process, from another thread, while it imports modules; the thread that waits for it notices."""
        if self._process.returncode is None:
            kill_tree(self._process.pid)

    def fork(self, go_on: Callable[[], None]) -> WorkerHandle:
        """Fork a new worker and return its handle. `go_on` raises an exception if the worker is no longer wanted."""
        number = next(self._numbers)
        log = self._workspace.log_path()
        channel, theirs = channel_pair(PARENT_OF_WORKER)
        try:
            with theirs, self._sending:
                self._living.add(number)
                self._control.send(Fork(number, str(log)), theirs.fileno(), timeout=limits.SEND_TIMEOUT)
            deadline = time.monotonic() + limits.FORK_TIMEOUT
            with self._news:
                while not self._news.wait_for(lambda: number in self._forked or self._gone, limits.TICK):
                    go_on()
                    if time.monotonic() >= deadline:
                        raise ChannelTimeout(f"it did not fork within {limits.FORK_TIMEOUT:g} s")
                if number not in self._forked:
                    raise ChannelClosed("its nursery is gone")
                pid = self._forked.pop(number)
        except BaseException:  # `go_on` may raise, or Ctrl-C come: close both ends of the channel
            channel.close()
            raise
        return WorkerHandle(channel, number, pid, log, self)

    def become_worker(self) -> WorkerHandle:
        """Turn the nursery process into the worker itself, and return its handle."""
        log = self._workspace.log_path()
        channel, theirs = channel_pair(PARENT_OF_WORKER)
        with theirs:
            self._control.send(Serve(str(log)), theirs.fileno(), timeout=limits.SEND_TIMEOUT)
        return WorkerHandle(channel, -1, self._process.pid, log, self)

    def exit_of(self, number: int, timeout: float) -> Exited | None:
        """Return how a worker ended, or None if it is not known within the timeout."""
        if number < 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
                return Exited(number, self._own_status(), 0)
            return None
        with self._news:
            self._news.wait_for(lambda: number in self._exits or self._gone, timeout)
            return self._exits.get(number)

    def has_lost(self, number: int) -> bool:
        """True if the worker has ended, or its nursery, without which no worker lives."""
        if number < 0:
            return self._process.poll() is not None
        with self._news:
            return self._gone or number in self._exits

    def end_worker(self, number: int) -> None:
        """Kill a worker and everything that it started. Only the nursery may signal it, since it knows whether the pid
        is still that of the worker."""
        if number >= 0:
            with contextlib.suppress(ChannelClosed, ChannelTimeout), self._sending:
                self._control.send(Kill(number), timeout=limits.SEND_TIMEOUT)
                return
        kill_tagged(self._tag)

    def condemn(self) -> None:
        """Kill a nursery that does not respond, for example because it was stopped. Its workers' users get others."""
        self.interrupt()

    @property
    def gone(self) -> bool:
        """True if the nursery has ended, and all its workers with it."""
        with self._news:
            return self._gone

    def forget(self, number: int) -> None:
        with self._news:
            self._living.discard(number)
            self._exits.pop(number, None)

    def _listen(self) -> None:
        while True:
            try:
                message = self._control.receive()
            except ChannelClosed:
                break
            with self._news:
                if isinstance(message, Forked):
                    self._forked[message.number] = message.pid
                elif isinstance(message, Exited) and message.number in self._living:
                    self._exits[message.number] = message
                self._news.notify_all()
        with self._news:
            self._gone = True
            self._news.notify_all()

    def kill(self) -> None:
        """Kill the nursery and all its workers, and release its resources."""
        if self._process.returncode is None:
            kill_tree(self._process.pid)
        self._control.hang_up()  # not earlier: the nursery would end, before its processes could be listed
        self._reader.join()
        self.destroy()

    def destroy(self) -> None:
        """Kill the nursery's processes, wait for its end, and close its channel."""
        # Orphans are adopted, so all its processes are below it; killing it alone would lose those without the tag.
        # Its pid cannot be reused, since it is not reaped yet.
        if self._process.returncode is None:
            kill_tree(self._process.pid)
        kill_tagged(self._tag)
        _wait_or_kill(self._process)
        self._control.close()

    def _own_status(self) -> int:
        code = _wait_or_kill(self._process)
        return -code if code < 0 else code << 8


def _wait_or_kill(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a process that is about to end; kill it if it does not end in time."""
    try:
        return process.wait(limits.END_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
    try:
        return process.wait(limits.END_TIMEOUT)
    except subprocess.TimeoutExpired:  # the process hangs in the kernel: waiting is useless
        return -signal.SIGKILL


def tag_of(workspace: Workspace) -> str:
    return f"{workspace.root}/"
