"""What a store holds, for readers and for other machines: bugs, reports, and stores that are joined."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from driftline.store import Bug, Store
from driftline.store.merge import MergeResult, merge_stores
from driftline.workbench.opened import OpenBench

if TYPE_CHECKING:
    from driftline.report.view import ReportView
    from driftline.store.remote import Transfer


class SharingBench(OpenBench):
    """The methods that hand on what was found."""

    def report(self, out: str | Path | None = None, *, format: str | None = None) -> ReportView:
        """What is in the store, for readers; written to `out` if given, in the format of its suffix or that named."""
        from driftline.report.formats import choose_format
        from driftline.report.gather import gather_store
        from driftline.report.pages import write_paged

        place = Path(out) if out is not None else None
        chosen = choose_format(format, place)
        if place is not None:
            return write_paged(self._store, place, chosen, self._library)
        return gather_store(self._store, self._library)

    def bugs(self) -> list[Bug]:
        """Every bug that was found so far."""
        return self._store.bugs()

    def merge(self, *stores: str | Path) -> MergeResult:
        """Merge other stores into this one; they are only read. The result is the same in any order."""
        with self._released() as own:
            return merge_stores([Path(store) for store in stores], own)

    def push(self, url: str) -> Transfer:
        """Bring what this store holds to a folder or an object store, and merge it with what lies there."""
        from driftline.store.remote import push

        return push(self._store.path, url)

    def pull(self, url: str, *, limit: int | None = None) -> Transfer:
        """Bring what was pushed to a URL into this store, and merge it with what is here. More than `limit` bytes (20
        GiB unless told otherwise) are refused: what lies there may be anything."""
        from driftline.store.remote import LIMIT, pull

        with self._released() as own:
            return pull(url, own, limit=LIMIT if limit is None else limit)

    @contextmanager
    def _released(self) -> Iterator[Path]:
        """The store's folder, with the store closed: a merge must be alone with it."""
        path = self._store.path
        self._store.close()
        try:
            yield path
        finally:
            self._store = Store.create(path)
