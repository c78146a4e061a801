"""Pools that a test opens and closes, as every command does, leave their nurseries to the next one: an import of a
compiler takes seconds of a processor, and hundreds of tests would do it one after another. What runs in a worker is the
same: each is forked from a nursery that has run nothing. A nursery is handed on where it would have been started in the
same way: same kind, same variables, same cache; never one of another interpreter, or of a plugin that a test wrote.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import driftline
from driftline.core.config import cache_home
from driftline.core.handover import share, unshare
from driftline.execute.nursery_handle import Keeper, NurseryHandle
from driftline.execute.pool import Pool, WorkerKind
from driftline.execute.worker_kind import environment_of
from driftline.execute.workspace import Workspace

MOST = 8  # nurseries that nobody uses: each holds a compiler in memory
OF_THE_PARENT = ("PYTEST_CURRENT_TEST", "COLUMNS", "LINES", "DRIFTLINE_STORE")  # variables that no worker reads
OURS = (str(Path(driftline.__file__).parent), str(Path(__file__).parent))  # plugins here stay as they are
PLUGINS = "driftline.core.plugins:load_plugins"

Key = tuple[WorkerKind, tuple[tuple[str, str], ...]]


class _Part(Workspace):
    """A pool's own folders in the workspace of the nurseries; they go with the pool. Folders of jobs lie where the
    workers of those nurseries may write."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self.root = workspace.root / name
        self._jobs = workspace.root / "jobs" / name
        self._counter = itertools.count()
        self._jobs.mkdir(mode=0o700)
        for folder in ("logs", "tmp", "programs", "nursery", "compilers"):
            (self.root / folder).mkdir(mode=0o700, parents=True)
        share(self._jobs)
        (self.root / "jobs").symlink_to(self._jobs)  # for workers of nurseries that are the pool's own, too

    def close(self) -> None:
        unshare(self._jobs)
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.rmtree(self._jobs, ignore_errors=True)


class KeptNurseries:
    """Those that are waiting for a pool, those used last at the end."""

    def __init__(self) -> None:
        self.workspace = Workspace()
        self._home = cache_home()
        self._keeper = Keeper(self.workspace)
        self._lock = threading.Lock()
        self._parts = itertools.count()
        self._waiting: list[tuple[Key, NurseryHandle]] = []
        self._keys: dict[NurseryHandle, Key] = {}
        self.on = False  # until the first test says where it stands

    def part(self) -> Workspace | None:
        """For a pool that begins now; `None` when it must have everything of its own."""
        if not self.on or cache_home() != self._home:
            return None
        return _Part(self.workspace, f"pool{next(self._parts)}")

    def key(self, kind: WorkerKind) -> Key | None:
        """`None` for what is not shared."""
        plugins = [path for name, paths in kind.warm if name == PLUGINS for path in paths]
        if not kind.fork or kind.python != sys.executable or not all(path.startswith(OURS) for path in plugins):
            return None
        variables = environment_of(kind, self.workspace)
        for name in OF_THE_PARENT:
            variables.pop(name, None)
        return kind, tuple(sorted(variables.items()))

    def start(self, key: Key, timeout: float) -> NurseryHandle:
        handle = NurseryHandle(key[0], self.workspace, timeout)
        with self._lock:
            self._keys[handle] = key
        return handle

    def take(self, key: Key) -> NurseryHandle | None:
        with self._lock:
            for entry in reversed(self._waiting):
                if entry[0] == key:
                    self._waiting.remove(entry)
                    if not entry[1].gone:
                        return entry[1]
        return None

    def put(self, handle: NurseryHandle) -> None:
        with self._lock:
            self._waiting.append((self._keys[handle], handle))
            surplus = self._waiting[:-MOST]
            del self._waiting[:-MOST]
        for _, one in surplus:
            self._end(one)

    def knows(self, handle: NurseryHandle) -> bool:
        return handle in self._keys

    def _end(self, handle: NurseryHandle) -> None:
        with self._lock:
            del self._keys[handle]
        handle.kill()

    def close(self) -> None:
        for _, handle in self._waiting:
            handle.kill()
        self._keeper.close()
        self.workspace.close()


def _taken_from(pool: Pool, kept: KeptNurseries) -> list[NurseryHandle]:
    """Dismiss the idle workers of a pool, and take away the nurseries that others may use."""
    with pool._lock:
        ours = {kind: one for kind, one in pool._nurseries.items() if kept.knows(one) and not one.gone}
        for kind in ours:
            del pool._nurseries[kind]
        idle = [worker for kind in ours for worker in pool._idle.pop(kind, [])]
    for worker in idle:
        worker.dismiss()
    return list(ours.values())


def relieve(pool: Pool, kept: KeptNurseries) -> None:
    """Take the nurseries of a pool that lives as long as the tests, if they are many: together they would fill the
    memory. Of these, the last ones wait for whoever needs them next."""
    if pool.kinds <= MOST:
        return
    for nursery in _taken_from(pool, kept):
        kept.put(nursery)
    with pool._lock:
        others = list(pool._nurseries.items())
        pool._nurseries.clear()
        idle = [worker for kind, _ in others for worker in pool._idle.pop(kind, [])]
    for worker in idle:
        worker.dismiss()
    for _, nursery in others:
        nursery.kill()


@contextmanager
def kept_nurseries() -> Iterator[KeptNurseries]:
    """Inside the block, pools without a workspace of their own share nurseries."""
    kept = KeptNurseries()
    first, started, warmed, close = Pool.__init__, Pool._started, Pool._warmed, Pool.close

    def begin(pool: Pool, workspace: Workspace | None = None, **more: Any) -> None:
        first(pool, workspace or kept.part(), **more)

    def key_for(pool: Pool, kind: WorkerKind) -> Key | None:
        return kept.key(kind) if isinstance(pool.workspace, _Part) else None

    def start(pool: Pool, kind: WorkerKind, began: int) -> NurseryHandle:
        key = key_for(pool, kind)
        return kept.start(key, pool._start_timeout) if key else started(pool, kind, began)

    def warm(pool: Pool, kind: WorkerKind, began: int) -> NurseryHandle:
        with pool._lock:
            pool._go_on(began)
        key = key_for(pool, kind)
        return (kept.take(key) if key else None) or warmed(pool, kind, began)

    def end(pool: Pool) -> None:
        ours = _taken_from(pool, kept)
        close(pool)
        for nursery in ours:
            kept.put(nursery)

    with pytest.MonkeyPatch.context() as patch:
        for name, replacement in (("__init__", begin), ("_started", start), ("_warmed", warm), ("close", end)):
            patch.setattr(Pool, name, replacement)
        yield kept
    kept.close()
