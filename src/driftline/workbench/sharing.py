"""Reports, and the exchange of bugs between stores: merge, push, pull."""

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
    """The methods of a workbench that report or share what was found."""

    def report(self, out: str | Path | None = None, *, format: str | None = None) -> ReportView:
        """Return a report view of the store; with `out`, also write it, in the format of the suffix or in `format`."""
        from driftline.report.formats import choose_format
        from driftline.report.gather import gather_store
        from driftline.report.pages import write_paged

        place = Path(out) if out is not None else None
        chosen = choose_format(format, place)
        if place is not None:
            return write_paged(self._store, place, chosen, self._library)
        return gather_store(self._store, self._library)

    def bugs(self) -> list[Bug]:
        """Return all bugs of the store."""
        return self._store.bugs()

    def merge(self, *stores: str | Path) -> MergeResult:
        """Merge other stores into this one; they are only read. The result is the same in any order."""
        with self._released() as own:
            return merge_stores([Path(store) for store in stores], own)

    def push(self, url: str) -> Transfer:
        """Copy this store's content to a folder or object store, and merge it with what is there."""
        from driftline.store.remote import push

        return push(self._store.path, url)

    def pull(self, url: str, *, limit: int | None = None) -> Transfer:
        """Merge what was pushed to a URL into this store. Raises if it is larger than `limit` bytes (default 20 GiB):
        the content of the URL is not trusted."""
        from driftline.store.remote import LIMIT, pull

        with self._released() as own:
            return pull(url, own, limit=LIMIT if limit is None else limit)

    @contextmanager
    def _released(self) -> Iterator[Path]:
        """Close the store inside the block, since a merge needs exclusive access; yields its folder."""
        path = self._store.path
        self._store.close()
        try:
            yield path
        finally:
            self._store = Store.create(path)
