"""The base of every part of a workbench: an open store, and workers that stay warm between calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from driftline.causes import Library, builtin
from driftline.checking.checker import Checker
from driftline.core.plugins import load_plugins
from driftline.execute.pool import Pool
from driftline.execute.processors import usual_jobs
from driftline.store import Store


class OpenBench:
    """An open store with its workers; `close` ends both."""

    def __init__(
        self, store: Path, *, plugins: Sequence[str] = (), jobs: int | None = None, library: Library | None = None
    ) -> None:
        load_plugins(plugins)
        self._plugins = tuple(str(Path(path).resolve()) for path in plugins)
        self._jobs = jobs or usual_jobs()
        self._library = builtin() if library is None else library
        self._store = Store.create(store)
        self._checker: Checker | None = None

    @property
    def store(self) -> Store:
        """The open store, for operations that have no method here."""
        return self._store

    def close(self) -> None:
        """End the workers and close the store."""
        if self._checker:
            self._checker.pool.close()
            self._checker = None
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _warm(self) -> Checker:
        if self._checker is None:
            self._checker = Checker(Pool(), self._jobs)
        return self._checker
