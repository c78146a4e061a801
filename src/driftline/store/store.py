"""The store: what was found, for good. SQLite for what is searched, content-addressed files for what is large.

    STORE/store.db          bugs, findings, cases
    STORE/objects/ab/cd...  programs and tensors, each under its SHA-256

Everything a finding needs is written before the finding itself, each step whole or not at all: a process killed at any
moment leaves a readable store. Several processes may share one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driftline.core.case import Case, CheckOptions, Deployed, Inputs
from driftline.core.errors import DriftlineError, StoreError
from driftline.core.files import BIG, copy_file
from driftline.core.program import Program, file_digest
from driftline.core.target import Target
from driftline.core.tensors import Arrays, load_tensors, save_tensors
from driftline.core.text import did_you_mean, to_json
from driftline.core.verdict import Fingerprint, Status
from driftline.store.migrations import MIGRATIONS, SCHEMA


@dataclass(frozen=True)
class Finding:
    """One sighting of a bug: the case that showed it, and what was seen."""

    case_id: str
    target: str
    verdict: dict[str, Any]
    execution: dict[str, Any]
    created: str


@dataclass(frozen=True)
class Bug:
    """A fingerprint with everything known of it."""

    id: str
    fingerprint: Fingerprint
    status: Status
    summary: str
    first_seen: str
    last_seen: str
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "status": str(self.status),
            "summary": self.summary,
            "fingerprint": self.fingerprint.to_json(),
            "first_seen": self.first_seen,
            "last_seen": self.last_seen,
            "findings": [vars(finding) for finding in self.findings],
        }


class Store:
    """An open store. `Store.create` to write, `Store.open` to browse what is there."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self.path = path  # as the user wrote it, for messages
        self._objects = path.resolve() / "objects"  # workers have another working directory
        self._database = database
        self._writing = threading.RLock()  # one connection, several threads

    # -- opening -----------------------------------------------------------------------------------------------------

    @staticmethod
    def create(path: Path) -> Store:
        """Open for writing; make it if it is not there."""
        with _explained(path):
            path.mkdir(parents=True, exist_ok=True)
            (path / "objects").mkdir(exist_ok=True)
            database = sqlite3.connect(path / "store.db", timeout=60, isolation_level=None, check_same_thread=False)
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=FULL")
            _migrate(database, path)
            return Store(path, database)

    @staticmethod
    def open(path: Path) -> Store:
        """Open what exists, also where nothing may be written."""
        if not (path / "store.db").is_file():
            raise StoreError(f"There is no store in {path}. Run driftline check first, or name another with --store.")
        if os.access(path, os.W_OK) and os.access(path / "store.db", os.W_OK):
            with contextlib.suppress(StoreError):
                return Store.create(path)
        with _explained(path):
            address = f"{(path / 'store.db').resolve().as_uri()}?immutable=1"
            database = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
            _check_version(database, path)
            return Store(path, database)

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- objects -----------------------------------------------------------------------------------------------------

    def put_file(self, path: Path) -> str:
        """Keep a copy of a file under its content hash; of a big one, a link."""
        digest = file_digest(path)
        self._put(path, self.object_path(digest))
        return digest

    def _put(self, path: Path, kept: Path, *, link: bool = True) -> None:
        if kept.exists():
            return
        with _explained(self.path):
            kept.parent.mkdir(parents=True, exist_ok=True)
            if path.stat().st_size >= BIG:
                copy_file(path, kept, link=link)
                return
            handle, part = tempfile.mkstemp(dir=kept.parent, prefix=".part-")
            try:
                with os.fdopen(handle, "wb") as target, open(path, "rb") as source:
                    shutil.copyfileobj(source, target)
                    target.flush()
                    os.fsync(target.fileno())
                os.replace(part, kept)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(part)
                raise

    def _put_program(self, program: Program) -> None:
        """A program with the files beside it: they are named by their content, and lie beside it here too."""
        digest = self.put_file(program.path)
        if digest != program.digest:
            raise DriftlineError(
                f"{program.name} was changed while it was checked, and what was found is of neither version."
                " Check it again."
            )
        for path in program.data_paths:
            self._put(path, self.object_path(digest).with_name(path.name), link=False)  # see core/files.py

    def put_tensors(self, arrays: Arrays) -> str:
        """Keep named arrays; the digest finds them again."""
        with _explained(self.path), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tensors"
            save_tensors(path, arrays)
            return self.put_file(path)

    def load_tensors(self, digest: str) -> Arrays:
        return load_tensors(self._existing(digest))

    def object_path(self, digest: str) -> Path:
        return self._objects / digest[:2] / digest[2:]

    # -- cases -------------------------------------------------------------------------------------------------------

    def save_case(self, case: Case) -> str:
        """Keep a case with its program and inputs; the same case twice is one."""
        program = case.program.to_json()
        self._put_program(case.program)
        samples = [{"object": self.put_tensors(s.arrays), "origin": s.origin} for s in case.samples]
        body = {
            "program": program,
            "samples": samples,
            "targets": [str(target) for target in case.targets],
            "options": case.options.to_json(),
        }
        if case.deployed:
            self._put_program(case.deployed.program)
            body["deployed"] = case.deployed.to_json()
        text = json.dumps(body, sort_keys=True)
        case_id = hashlib.sha256(text.encode()).hexdigest()[:16]
        with self.transaction() as database:
            database.execute("INSERT OR IGNORE INTO cases VALUES (?, ?, ?)", (case_id, text, now()))
        return case_id

    def load_case(self, case_id: str) -> Case:
        row = self.query("SELECT body FROM cases WHERE id = ?", (case_id,))
        if not row:
            raise StoreError(f"The case {case_id} is not in the store {self.path}.")
        body = json.loads(row[0][0])
        digest = body["program"]["digest"]
        program = Program.from_json(body["program"], self._existing(digest))
        self._require_data(program)
        samples = tuple(
            Inputs(load_tensors(self._existing(sample["object"])), sample["origin"]) for sample in body["samples"]
        )
        targets = tuple(Target.parse(text) for text in body["targets"])
        deployed = body.get("deployed")  # cases of older stores have none
        if deployed:
            deployed = Deployed.from_json(deployed, self._existing(deployed["program"]["digest"]))
            self._require_data(deployed.program)
        return Case(program, samples, targets, CheckOptions.from_json(body["options"]), deployed)

    def _require_data(self, program: Program) -> None:
        for path in program.data_paths:
            self._require(path, path.name)

    def _existing(self, digest: str) -> Path:
        return self._require(self.object_path(digest), digest)

    def _require(self, path: Path, name: str) -> Path:
        if not path.is_file():
            raise StoreError(f"The store {self.path} has lost the object {name[:12]}; the case cannot be replayed.")
        return path

    # -- bugs --------------------------------------------------------------------------------------------------------

    def add_finding(
        self,
        fingerprint: Fingerprint,
        case: Case,
        target: Target,
        *,
        summary: str,
        status: Status,
        verdict: dict[str, Any],
        execution: dict[str, Any],
        keep: bool = False,
    ) -> Bug:
        """Record a sighting. A known bug gets one finding more; its status stays what people made it. With `keep`, a
        finding about the same case stays as it is."""
        case_id = self.save_case(case.only(target))
        moment = now()
        with self.transaction() as database:
            database.execute(
                "INSERT INTO bugs VALUES (:id, :fingerprint, :status, :summary, :now, :now)"
                " ON CONFLICT (id) DO UPDATE SET last_seen = :now,"
                " status = CASE WHEN status IN ('new', 'flaky', 'fixed') THEN :status ELSE status END",
                {
                    "id": fingerprint.bug_id,
                    "fingerprint": json.dumps(fingerprint.to_json()),
                    "status": str(status),
                    "summary": summary,
                    "now": moment,
                },
            )
            database.execute(
                "INSERT INTO findings (bug, case_id, target, verdict, execution, created) VALUES (?, ?, ?, ?, ?, ?)"
                + (
                    " ON CONFLICT (bug, case_id, target) DO NOTHING"
                    if keep
                    else " ON CONFLICT (bug, case_id, target) DO UPDATE SET"
                    " verdict = excluded.verdict, execution = excluded.execution, created = excluded.created"
                ),
                (fingerprint.bug_id, case_id, str(target), to_json(verdict), to_json(execution), moment),
            )
        return self.bug(fingerprint.bug_id)

    def bugs(self) -> list[Bug]:
        """All bugs, the newest first, without their findings."""
        return [_bug(row) for row in self.query(f"SELECT {_BUG_COLUMNS} FROM bugs ORDER BY first_seen DESC, id")]

    def bug(self, name: str) -> Bug:
        """One bug with its findings, by its name or an unambiguous beginning of it."""
        rows = self.query(f"SELECT {_BUG_COLUMNS} FROM bugs WHERE id = ? OR id LIKE ? || '%'", (name, name))
        exact = [row for row in rows if row[0] == name] or rows
        if len(exact) != 1:
            names = [row[0] for row in self.query("SELECT id FROM bugs")]
            if exact:
                raise DriftlineError(f"{name!r} may be any of {', '.join(row[0] for row in exact)}; write more of it.")
            known = "driftline bugs list shows all" if names else "it has no bugs"
            raise DriftlineError(
                f"There is no bug {name!r} in the store {self.path}.{did_you_mean(name, names)} ({known}.)"
            )
        bug = _bug(exact[0])
        rows = self.query(
            "SELECT case_id, target, verdict, execution, created FROM findings WHERE bug = ? ORDER BY id", (bug.id,)
        )
        return replace(bug, findings=tuple(Finding(r[0], r[1], json.loads(r[2]), json.loads(r[3]), r[4]) for r in rows))

    def has_bug(self, bug_id: str) -> bool:
        return bool(self.query("SELECT 1 FROM bugs WHERE id = ?", (bug_id,)))

    def mark(self, name: str, status: Status) -> Bug:
        bug = self.bug(name)
        with self.transaction() as database:
            database.execute("UPDATE bugs SET status = ? WHERE id = ?", (str(status), bug.id))
        return replace(bug, status=status)

    # -- plumbing ----------------------------------------------------------------------------------------------------

    def query(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        with _explained(self.path), self._writing:
            return self._database.execute(sql, parameters).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with _explained(self.path), self._writing:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._database.execute("ROLLBACK")
                raise


_BUG_COLUMNS = "id, fingerprint, status, summary, first_seen, last_seen"


def _bug(row: tuple[str, ...]) -> Bug:
    return Bug(row[0], Fingerprint(**json.loads(row[1])), Status(row[2]), row[3], row[4], row[5])


def _migrate(database: sqlite3.Connection, path: Path) -> None:
    if _check_version(database, path) == SCHEMA:
        return
    database.execute("BEGIN IMMEDIATE")  # another process may be doing the same: look again under the lock
    try:
        for number in range(_check_version(database, path), SCHEMA):
            for statement in MIGRATIONS[number]:
                database.execute(statement)
        database.execute(f"PRAGMA user_version = {SCHEMA}")
        database.execute("COMMIT")
    except BaseException:
        database.execute("ROLLBACK")
        raise


def _check_version(database: sqlite3.Connection, path: Path) -> int:
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA:
        raise StoreError(
            f"The store {path} was written by a newer Driftline (format {version}, this one reads up to {SCHEMA})."
            " Upgrade Driftline or name another store with --store."
        )
    return version


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """What the file system and SQLite complain of, in one sentence."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise StoreError(_sentence(path, str(error))) from error
    except OSError as error:
        text = "disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else str(error.strerror)
        raise StoreError(_sentence(path, text)) from error


def _sentence(path: Path, trouble: str) -> str:
    lower = trouble.lower()
    if "full" in lower:
        return f"The disk that holds the store {path} is full; make room or name another with --store. Nothing is lost."
    if "not a database" in lower or "malformed" in lower:
        return f"{path}/store.db is not a Driftline store; name another folder with --store."
    if "readonly" in lower or "read-only" in lower or "permission" in lower or "unable to open" in lower:
        return f"The store {path} cannot be written ({trouble}); change its permissions or name another with --store."
    if "locked" in lower:
        return f"The store {path} has been locked by another process for a minute; wait for it or use another store."
    return f"The store {path} cannot be used: {trouble}. Name another with --store."


def now() -> str:
    """The present moment, as the store writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
