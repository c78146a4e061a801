"""Remote stores: `push` copies the content of a store to a folder or an object store, `pull` copies it back.

The address holds a store too (`store.db`, `objects/`), and both directions merge, so nothing that others pushed is
lost. Objects are sent first and only once, identified by their digests; the database follows as one file that replaces
the old one as a whole. A push during a hunt sends the store as it was at one moment. Only one push at a time replaces
the database: it writes a marker file first, and continues only if there is no other marker.
"""

from __future__ import annotations

import contextlib
import random
import re
import secrets
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftline.core.errors import BackendUnavailable, DriftlineError, StoreError
from driftline.core.notices import Countdown
from driftline.core.private import private_folder, write_private
from driftline.core.program import file_digest
from driftline.store.merge import MergeResult, merge_stores
from driftline.store.objects import Objects, digest_of, pieces_of
from driftline.store.source import open_source, require_source
from driftline.store.store import Store, explained

_OBJECT = re.compile(r"objects/([0-9a-f]{2})/([0-9a-f]{62}|[0-9a-f]{64}\.data)")
_DATABASE = "store.db"
_MARKER = "pushing-"  # how the name of a marker begins
_PATIENCE = 300.0  # seconds that a push waits for others
_STALE = 900.0  # seconds after which a marker is that of a process which was killed
GIB = 1 << 30
LIMIT = 20 * GIB  # default for fetched bytes: remote content is not trusted


@dataclass
class Transfer:
    """The result of a push or a pull."""

    address: str
    merged: MergeResult
    objects: int = 0  # that were missing
    size: int = 0  # bytes of them

    def to_json(self) -> dict[str, Any]:
        told = self.merged.to_json()
        return {"address": self.address, "objects": self.objects, "bytes": self.size, **told}


class RemotePlace:
    """A folder, or a prefix of an object store, given by its address."""

    def __init__(self, address: str) -> None:
        self.address = address
        try:
            import fsspec
            from fsspec.implementations.local import LocalFileSystem

            self._files, root = fsspec.core.url_to_fs(address)
        except ImportError as error:
            what = "fsspec, which is not installed: pip install 'driftline[remote]'"
            raise BackendUnavailable(
                f"{address} needs {what if error.name == 'fsspec' else f'a package that is not installed: {error}'}."
            ) from error
        except ValueError as error:
            raise DriftlineError(
                f"{address} is no address that fsspec knows ({error}); name a folder, or file://, s3://, gs://, az://..."
            ) from error
        self._root = str(root).rstrip("/")
        self._is_local = isinstance(self._files, LocalFileSystem)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all plain files by their names below the address."""
        with self._explained():
            self._files.invalidate_cache()
            found = self._files.find(self._root, detail=True)
            return {name[len(self._root) :].lstrip("/"): int(i["size"]) for name, i in found.items() if _is_plain(i)}

    def state(self, name: str) -> object:
        """Return a value that changes when the file is replaced, or None if it does not exist."""
        with self._explained():
            self._files.invalidate_cache()
            path = f"{self._root}/{name}"
            return self._files.ukey(path) if self._files.exists(path) else None

    def read(self, name: str, to: Path) -> None:
        """Copy a plain file to `to`, no more than its size: a link may lead to a device, which has no end."""
        with self._explained():
            path = f"{self._root}/{name}"
            info = self._files.info(path)
            if not _is_plain(info):
                raise StoreError(f"{self.address}: {name} is not a plain file, and is not read. Remove it.")
            left = int(info["size"])
            with self._files.open(path, "rb") as there, open(to, "wb") as here:
                while left > 0 and (piece := there.read(min(left, 1 << 20))):
                    here.write(piece)
                    left -= len(piece)

    def require_quiet(self) -> None:
        """Refuse a store with a write-ahead log: some rows are only in the log, and SQLite would apply it to a database
        that replaces the present one."""
        with self._explained():
            self._files.invalidate_cache()
            if self._files.exists(f"{self._root}/{_DATABASE}-wal"):
                raise StoreError(
                    f"The store at {self.address} is in use, or was when a process was killed (it has a store.db-wal)."
                    " Wait until it is closed, or use driftline store merge, which reads such a store."
                )

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the marker file that keeps other pushes from replacing the database. Of two pushes that begin at once,
        both see the other's marker, remove their own and try again later."""
        name = _MARKER + secrets.token_hex(8)
        until = time.monotonic() + _PATIENCE
        while not self._marked_alone(name):
            if time.monotonic() > until:
                raise StoreError(
                    f"Another push to {self.address} is under way, or was killed within the last quarter of an hour;"
                    " run the command again later."
                )
            time.sleep(random.uniform(0.05, 0.5))
        try:
            yield
        finally:
            self._remove(name)

    def _marked_alone(self, name: str) -> bool:
        """Write the marker; True if it is the only recent one. Otherwise it is removed."""
        with tempfile.NamedTemporaryFile() as empty:
            self.write(name, Path(empty.name))
        alone = False
        try:
            with self._explained():
                alone = not any(age < _STALE for age in self._ages_of_others(name))
        finally:
            if not alone:
                self._remove(name)
        return alone

    def _ages_of_others(self, name: str) -> Iterator[float]:
        """Yield how many seconds before this marker each other marker was written."""
        self._files.invalidate_cache()
        mine = self._files.modified(f"{self._root}/{name}")
        for path in self._files.ls(self._root, detail=False):
            if _MARKER in path.rpartition("/")[2] and not path.endswith(name):
                with contextlib.suppress(FileNotFoundError):  # its push has ended since it was listed
                    yield (mine - self._files.modified(path)).total_seconds()

    def _remove(self, name: str) -> None:
        with self._explained(), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(f"{self._root}/{name}")

    def write(self, name: str, source: Path) -> None:
        """Write a file to the address, whole or not at all."""
        path = f"{self._root}/{name}"
        with self._explained():
            if self._is_local:
                for folder in (Path(self._root) / "objects", Path(path).parent):
                    if folder.is_symlink() and folder != Path(self._root):
                        raise StoreError(f"{folder} is a symbolic link, and Driftline does not write there. Remove it.")
                private_folder(Path(path).parent)
                with open(source, "rb") as file:
                    write_private(Path(path), pieces_of(file), lasting=True)
                return
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            with self._files.transaction, self._files.open(path, "wb") as there, open(source, "rb") as here:
                shutil.copyfileobj(here, there, 1 << 20)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DriftlineError:
            raise
        except Exception as error:  # each kind of storage has its own
            said = " ".join(str(error).split())[:200] or type(error).__name__
            raise StoreError(
                f"{self.address} cannot be used ({type(error).__name__}: {said}); look at the address and your rights"
                " there, and run the command again: what was done is not done twice."
            ) from error


def _is_plain(info: dict[str, Any]) -> bool:
    """True if it is a regular file, not a link, a pipe or a device."""
    return info["type"] == "file" and not info.get("islink")


def push(store: Path, address: str) -> Transfer:
    """Copy the content of a store to an address, and merge it with the store there."""
    place = RemotePlace(address)
    with tempfile.TemporaryDirectory(prefix="driftline-push-") as name:
        folder = Path(name)
        with open_source(store) as source, explained(store):
            (folder / "mine").mkdir()
            with closing(sqlite3.connect(folder / "mine" / _DATABASE)) as copy:
                source.database.backup(copy)  # at one moment; objects are there before rows that name them
        done = Transfer(address, MergeResult(Path(address), 1))
        place.require_quiet()
        told = _send_objects(store, place, done)
        with place.alone():
            before = place.state(_DATABASE)
            whole, done.merged = _merged_with(place, folder, there=before is not None)
            for sentence in told:
                done.merged.damaged.add(sentence)
            if before is None or done.merged.added or done.merged.updated:
                place.require_quiet()
                if place.state(_DATABASE) != before:  # we took so long that others believed us killed
                    raise StoreError(f"Another push to {address} came first; run the command again.")
                place.write(_DATABASE, whole)
        return done


def _merged_with(place: RemotePlace, folder: Path, *, there: bool) -> tuple[Path, MergeResult]:
    """Merge the pushed database with the one at the address; returns the file and the result of the merge."""
    both = folder / "both"
    shutil.rmtree(both, ignore_errors=True)
    both.mkdir()
    if there:
        place.read(_DATABASE, both / _DATABASE)
        require_source(both)
    result = merge_stores([folder / "mine"], both, objects=False)
    result.into = Path(place.address)
    with closing(sqlite3.connect(both / _DATABASE)) as database:
        database.execute("PRAGMA journal_mode=DELETE")  # a file that can be read without others beside it
    return both / _DATABASE, result


def _send_objects(store: Path, place: RemotePlace, done: Transfer) -> list[str]:
    """Send the objects that are missing at the address; returns messages about damaged ones here."""
    there = place.sizes()
    told: list[str] = []
    here = {f"objects/{path.parent.name}/{path.name}": path for path in sorted((store / "objects").glob("*/*"))}
    plain = {
        name: path
        for name, path in here.items()
        if _OBJECT.fullmatch(name) and path.is_file() and not path.is_symlink()
    }
    missing = {name: path for name, path in plain.items() if there.get(name) != path.stat().st_size}
    progress = Countdown(f"Sending objects of {store}", len(missing))
    for name, path in missing.items():
        trouble = "is damaged"
        try:
            sound = digest_of(path) == _digest(name)
        except OSError as error:
            sound, trouble = False, f"cannot be read ({error.strerror})"
        if sound:
            place.write(name, path)
            done.objects += 1
            done.size += path.stat().st_size
        else:
            told.append(f"{store}: the object {_digest(name)[:12]} {trouble}; it is not sent.")
        progress.step()
    return told


def pull(address: str, store: Path, *, limit: int = LIMIT) -> Transfer:
    """Merge the store at an address into a local one, which is created if needed. Refused if more than `limit` bytes
    would be fetched."""
    place = RemotePlace(address)
    with tempfile.TemporaryDirectory(prefix="driftline-pull-") as name:
        theirs = Path(name) / "theirs"
        theirs.mkdir()
        if place.state(_DATABASE) is None:
            raise StoreError(f"There is no store at {address}; driftline store push brings one there.")
        place.require_quiet()
        _require_room(place, store, limit)
        place.read(_DATABASE, theirs / _DATABASE)
        try:
            require_source(theirs)
        except StoreError as error:
            raise StoreError(str(error).replace(str(theirs), address)) from error
        Store.create(store).close()
        done = Transfer(address, MergeResult(store, 1))
        told = _fetch_objects(place, store, Path(name), done)
        done.merged = merge_stores([theirs], store, objects=False)
        for sentence in told:
            done.merged.damaged.add(sentence)
        return done


def _missing(sizes: dict[str, int], store: Path) -> dict[str, int]:
    """Return the objects that are only at the address, with their sizes."""
    return {
        name: size
        for name, size in sizes.items()
        if _OBJECT.fullmatch(name) and not ((store / name).is_file() and (store / name).stat().st_size == size)
    }


def _require_room(place: RemotePlace, store: Path, limit: int) -> None:
    """Refuse, before anything is fetched, if more than `limit` bytes are missing here."""
    sizes = place.sizes()
    size = sizes.get(_DATABASE, 0) + sum(_missing(sizes, store).values())
    if size > limit:
        raise StoreError(
            f"{place.address} holds {size / GIB:.3g} GiB that are not here, and at most {limit / GIB:.3g} GiB are"
            " fetched; give more with --limit if you trust it."
        )


def _fetch_objects(place: RemotePlace, store: Path, folder: Path, done: Transfer) -> list[str]:
    """Fetch the objects that are missing here; returns messages about damaged ones at the address."""
    kept = Objects(store.resolve() / "objects", store)
    told: list[str] = []
    missing = _missing(place.sizes(), store)
    progress = Countdown(f"Fetching objects of {place.address}", len(missing))
    for name, size in missing.items():
        path = folder / "object"
        place.read(name, path)
        if file_digest(path) == _digest(name):
            with explained(store):
                kept.put_as(path, name.removeprefix("objects/"), _digest(name))
            done.objects += 1
            done.size += size
        else:
            told.append(f"{place.address}: the object {_digest(name)[:12]} is damaged; it is skipped.")
        progress.step()
    return told


def _digest(name: str) -> str:
    """Return the digest in the name of an object or a data file."""
    _, folder, rest = name.split("/")
    return rest.removesuffix(".data") if rest.endswith(".data") else folder + rest
