"""The store: what was found, for good. SQLite for what is searched, content-addressed files for what is large.

    STORE/store.db          bugs, findings, cases
    STORE/objects/ab/cd...  programs and tensors, each under its SHA-256

Everything a finding needs is written before the finding itself, each step whole or not at all: a process killed at any
moment leaves a readable store. Several processes may share one. It is the user's alone: folders are 0700, files 0600,
and links are not followed (`core/private.py`). A row or an object that is damaged is a gap (`Store.gaps`), and the rest
can be read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from driftline.core.case import Case, CheckOptions, Deployed, Inputs
from driftline.core.errors import DriftlineError, StoreError
from driftline.core.evidence import Evidence
from driftline.core.private import open_private, own_folder, private_folder, refuse_link
from driftline.core.program import SCHEDULE, SCRIPT, Program
from driftline.core.target import Target
from driftline.core.tensors import Arrays, load_tensors, save_tensors
from driftline.core.text import did_you_mean, first_line, to_json
from driftline.core.titles import SMALLEST
from driftline.core.verdict import Fingerprint, Status
from driftline.core.wire import WireError, decode
from driftline.store.objects import Objects, readable_copy
from driftline.store.opening import DATABASE_FILES, require_own_schema, require_plain_files
from driftline.store.rows import (
    DAMAGE,
    check_bug,
    check_case,
    check_finding,
    check_texts,
    fingerprint_of,
    shallow_json,
)
from driftline.store.schema import check_version, make_tables


@dataclass(frozen=True)
class Finding:
    """One sighting of a bug: the case that showed it, and what was seen."""

    case_id: str
    target: str
    verdict: dict[str, Any]
    execution: dict[str, Any]
    created: str

    @cached_property
    def evidence(self) -> Evidence:
        """The measurements behind the finding's verdict."""
        return Evidence.from_json(self.verdict.get("evidence") or {})

    def to_json(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True)
class Bug:
    """A bug: its fingerprint, status, summary and findings."""

    id: str
    fingerprint: Fingerprint
    status: Status
    summary: str
    first_seen: str
    last_seen: str
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        return f"<Bug {self.id} ({self.status}): {first_line(self.summary, 120)}>"

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "status": str(self.status),
            "summary": self.summary,
            "fingerprint": self.fingerprint.to_json(),
            "first_seen": self.first_seen,
            "last_seen": self.last_seen,
            "findings": [finding.to_json() for finding in self.findings],
        }


def sound_bugs(store: Store, names: Sequence[str] | None = None) -> Iterator[Bug]:
    """Yield all bugs with their findings, or those of these names; a damaged bug is skipped and noted as a gap."""
    for name in names if names is not None else [bug.id for bug in store.bugs()]:
        try:
            yield store.bug(name)
        except StoreError as error:
            store.note_gap(str(error))


class Store:
    """An open store. `Store.create` opens it for writing, `Store.open` for reading."""

    def __init__(
        self, path: Path, database: sqlite3.Connection, copied: tempfile.TemporaryDirectory[str] | None = None
    ) -> None:
        self.path = path  # as the user wrote it, for messages
        self._objects = Objects(path.resolve() / "objects", path)  # workers have another working directory
        self._database = database
        self._copied = copied  # the temporary copy of a store that cannot be written
        self.gaps: list[str] = []  # sentences about what could not be read
        self._writing = threading.RLock()  # one connection, several threads

    # -- opening -----------------------------------------------------------------------------------------------------

    @staticmethod
    def create(path: Path) -> Store:
        """Open a store for writing; it is created if it does not exist."""
        with explained(path):
            private_folder(path)
            own_folder(path / "objects")
            for name in DATABASE_FILES:
                refuse_link(path / name)
            os.close(open_private(path / "store.db"))  # 0600, and what SQLite makes beside it has the same rights
            (path / "store.db").chmod(0o600)
            database = sqlite3.connect(path / "store.db", timeout=60, isolation_level=None, check_same_thread=False)
            try:
                _write_ahead(database)
                require_own_schema(database, path)
                database.execute("PRAGMA synchronous=FULL")
                make_tables(database, path)
            except BaseException:
                database.close()
                raise
            made = Store(path, database)
            made._objects.sweep()
            return made

    @staticmethod
    def open(path: Path) -> Store:
        """Open an existing store, also on a read-only file system."""
        if not (path / "store.db").is_file():
            raise StoreError(f"There is no store in {path}. Run driftline check first, or name another with --store.")
        if os.access(path, os.W_OK) and os.access(path / "store.db", os.W_OK):
            with contextlib.suppress(StoreError):
                return Store.create(path)
        require_plain_files(path)
        with explained(path):
            wal = path / "store.db-wal"
            if not wal.is_file() or not wal.stat().st_size:
                return Store(path, _opened(path / "store.db", path, "immutable=1"))
            with contextlib.suppress(sqlite3.DatabaseError):  # as those that write it see it
                return Store(path, _opened(path / "store.db", path, "mode=ro"))
            copied = tempfile.TemporaryDirectory(prefix="driftline-store-")
            readable_copy(path, Path(copied.name))
            return Store(path, _opened(Path(copied.name) / "store.db", path, "mode=rw"), copied)

    def close(self) -> None:
        self._database.close()
        if self._copied:
            self._copied.cleanup()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- objects -----------------------------------------------------------------------------------------------------

    def put_file(self, path: Path) -> str:
        """Keep a copy of a file under its content hash (a link to a large one), and return the hash."""
        with explained(self.path):
            return self._objects.put(path)

    def _put_program(self, program: Program) -> None:
        """Keep a program and its data files, which are named by their content and lie beside it in the store too."""
        digest = self.put_file(program.path)
        if digest != program.digest:
            raise DriftlineError(
                f"{program.name} was changed while it was checked, and what was found is of neither version."
                " Check it again."
            )
        with explained(self.path):
            for path in program.data_paths:
                self._objects.put_data(path, self.object_path(digest))

    def put_tensors(self, arrays: Arrays) -> str:
        """Keep named arrays, and return the digest that `load_tensors` finds them by."""
        with explained(self.path), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tensors"
            save_tensors(path, arrays)
            return self.put_file(path)

    def load_tensors(self, digest: str) -> Arrays:
        return self._read_tensors(digest)

    def object_path(self, digest: str) -> Path:
        return self._objects.path(digest)

    # -- cases -------------------------------------------------------------------------------------------------------

    def save_case(self, case: Case) -> str:
        """Keep a case with its program and inputs, and return its id; equal cases are stored once."""
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
        case_id = case_name(text)
        with self.transaction() as database:
            database.execute("INSERT OR IGNORE INTO cases VALUES (?, ?, ?)", (case_id, text, now()))
        return case_id

    def load_case(self, case_id: str) -> Case:
        row = self.query("SELECT body FROM cases WHERE id = ?", (case_id,))
        if not row:
            raise StoreError(f"The case {case_id} is not in the store {self.path}.")
        try:
            body = shallow_json(row[0][0])
            check_case(body)
            return self._case(body)
        except StoreError:
            raise
        except (DriftlineError, *DAMAGE) as error:
            raise StoreError(
                f"The case {case_id} in the store {self.path} is damaged ({type(error).__name__}: {error}); it"
                " cannot be replayed."
            ) from error

    def _case(self, body: dict[str, Any]) -> Case:
        program = Program.from_json(body["program"], self._existing(body["program"]["digest"]))
        self._require_data(program)
        samples = tuple(Inputs(self._read_tensors(sample["object"]), sample["origin"]) for sample in body["samples"])
        targets = tuple(Target.parse(text) for text in body["targets"])
        deployed = body.get("deployed")  # cases of older stores have none
        if deployed:
            deployed = Deployed.from_json(deployed, self._existing(deployed["program"]["digest"]))
            self._require_data(deployed.program)
        return Case(program, samples, targets, CheckOptions.from_json(body["options"]), deployed)

    def _require_data(self, program: Program) -> None:
        if program.form in _TEXTS and program.path.stat().st_size > MOST_TEXT:
            raise StoreError(
                f"The program of a case in the store {self.path} has more than {MOST_TEXT >> 20} MiB of text, and is"
                " not read."
            )
        with explained(self.path):
            for name in program.data:
                self._objects.existing_data(program.path, name)

    def _read_tensors(self, digest: str) -> Arrays:
        return load_tensors(self._existing(digest))

    def _existing(self, digest: str) -> Path:
        with explained(self.path):
            return self._objects.existing(digest)

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
        """Record a finding of a bug, and return the bug. A status that a person set is kept. With `keep`, an existing
        finding for the same case stays unchanged."""
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

    def note_sighting(self, bug_id: str, finding: Finding, facts: dict[str, Any]) -> None:
        """Add to a finding the facts about its smallest program, which causes are matched against."""
        self._note(bug_id, finding, "sighting", facts)

    def note_smallest(self, bug_id: str, finding: Finding, form: dict[str, Any]) -> None:
        """Add to a finding the smallest failing program: its case, and the facts for a title."""
        self._note(bug_id, finding, SMALLEST, form)

    def _note(self, bug_id: str, finding: Finding, key: str, value: dict[str, Any]) -> None:
        with self.transaction() as database:
            database.execute(
                "UPDATE findings SET verdict = json_set(verdict, ?, json(?))"
                " WHERE bug = ? AND case_id = ? AND target = ?",
                (f"$.{key}", to_json(value), bug_id, finding.case_id, finding.target),
            )

    def bugs(self) -> list[Bug]:
        """Return all bugs without their findings, newest first. A damaged row is skipped and noted as a gap."""
        rows = self.query(f"SELECT {BUG_COLUMNS} FROM bugs ORDER BY first_seen DESC, id")
        return [bug for row in rows if (bug := self.sound_bug(row))]

    def sound_bug(self, row: tuple[str, ...]) -> Bug | None:
        """Return the bug of a row, without findings; if the row is damaged, note a gap and return None."""
        try:
            return self._bug(row)
        except StoreError as error:
            self.note_gap(str(error))
            return None

    def _bug(self, row: tuple[str, ...]) -> Bug:
        try:
            return _bug(row)
        except DAMAGE as error:
            raise StoreError(
                f"The bug {str(row[0])[:80]!r} in the store {self.path} is damaged ({type(error).__name__}: {error});"
                " it cannot be shown."
            ) from error

    def note_gap(self, sentence: str) -> None:
        """Remember a sentence about something that could not be read."""
        if sentence not in self.gaps:
            self.gaps.append(sentence)

    def sound_json(self, text: str, what: str, kind: Any = None) -> Any:
        """Parse the JSON of a row, as a value of `kind` if given; if it is damaged, note a gap and return None."""
        try:
            held = shallow_json(text)
            return held if kind is None else decode(kind, held)
        except (ValueError, TypeError, RecursionError, WireError) as error:
            self.note_gap(f"{what} in the store {self.path} is damaged ({error}); it is left out.")
            return None

    def bug(self, name: str) -> Bug:
        """Return a bug with its findings, by its id or an unambiguous prefix of it."""
        after = f"{name}\U0010ffff"  # a range of the primary key, which LIKE would not use
        rows = self.query(f"SELECT {BUG_COLUMNS} FROM bugs WHERE id >= ? AND id < ? ORDER BY id", (name, after))
        exact = [row for row in rows if row[0] == name] or rows
        if len(exact) != 1:
            names = [str(row[0]) for row in self.query("SELECT id FROM bugs")]
            if exact:
                few = ", ".join(row[0] for row in exact[:10]) + (", ..." if len(exact) > 10 else "")
                raise DriftlineError(f"{name!r} may be any of {few}; write more of it.")
            known = "driftline bugs list shows all." if names else "It has none."
            raise DriftlineError(
                f"There is no bug {name!r} in the store {self.path}.{did_you_mean(name, names)} {known}"
            )
        bug = self._bug(exact[0])
        rows = self.query(
            "SELECT case_id, target, verdict, execution, created FROM findings WHERE bug = ? ORDER BY id", (bug.id,)
        )
        findings = tuple(finding for row in rows if (finding := self.sound_finding(bug.id, row)))
        if not findings:
            raise StoreError(f"The bug {bug.id} in the store {self.path} is damaged: no finding of it can be read.")
        return replace(bug, findings=findings)

    def sound_finding(self, bug: str, row: Sequence[str]) -> Finding | None:
        """Return the finding of a row (case, target, verdict, execution, time); if damaged, note a gap and return
        None."""
        verdict, execution = (self.sound_json(text, f"A finding of {bug}") for text in row[2:4])
        if verdict is None or execution is None:
            return None
        try:
            check_texts(row[0], row[1], row[4])
            check_finding(verdict, execution)
        except ValueError as error:
            self.note_gap(f"A finding of {bug} in the store {self.path} is damaged ({error}); it is left out.")
            return None
        return Finding(row[0], row[1], verdict, execution, row[4])

    def has_bug(self, bug_id: str) -> bool:
        return bool(self.query("SELECT 1 FROM bugs WHERE id = ?", (bug_id,)))

    def mark(self, name: str, status: Status) -> Bug:
        bug = self.bug(name)
        with self.transaction() as database:
            database.execute("UPDATE bugs SET status = ? WHERE id = ?", (str(status), bug.id))
        return replace(bug, status=status)

    # -- plumbing ----------------------------------------------------------------------------------------------------

    def query(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        """Return the rows of a query. A row with bytes in place of text or numbers is damaged: it is skipped and noted
        as a gap."""
        with explained(self.path), self._writing:
            try:
                rows = self._database.execute(sql, parameters).fetchall()
            except sqlite3.OperationalError as error:
                if "decode" not in str(error):
                    raise
                rows = self._undecoded(sql, parameters)
        sound = [row for row in rows if bytes not in map(type, row)]
        if len(sound) < len(rows):
            self.note_gap(f"{len(rows) - len(sound)} rows in the store {self.path} are damaged (bytes); left out.")
        return sound

    def _undecoded(self, sql: str, parameters: tuple[Any, ...]) -> list[Any]:
        """Run a query again with invalid text replaced by U+FFFD, so that one damaged row does not hide the others."""
        self._database.text_factory = lambda held: held.decode("utf-8", "replace")
        try:
            return self._database.execute(sql, parameters).fetchall()
        finally:
            self._database.text_factory = str

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with explained(self.path), self._writing:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._database.execute("ROLLBACK")
                raise


MOST_TEXT = 64 << 20  # bytes of a program that is text; such programs are read whole, by the main process too
_TEXTS = ("source", SCHEDULE, SCRIPT)
BUG_COLUMNS = "id, fingerprint, status, summary, first_seen, last_seen"


def _bug(row: tuple[str, ...]) -> Bug:
    check_bug(row)
    return Bug(row[0], fingerprint_of(row[1]), Status(row[2]), row[3], row[4], row[5])


def case_name(body: str) -> str:
    """Return the id of a case: the hash of its content."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def _write_ahead(database: sqlite3.Connection) -> None:
    """Switch to write-ahead logging, so that readers and a writer can work at the same time. Retries for a minute,
    since SQLite does not wait for this lock and two processes may create a store at the same moment."""
    until = time.monotonic() + 60
    while True:
        try:
            database.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.05)


def _opened(database: Path, path: Path, how: str) -> sqlite3.Connection:
    """Open a database for reading, and check its schema, layout and file at once."""
    address = f"{database.resolve().as_uri()}?{how}"
    opened = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    try:
        require_own_schema(opened, path)
        check_version(opened, path)
        opened.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
    except BaseException:
        opened.close()
        raise
    return opened


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of the file system and of SQLite into a `StoreError` with one sentence."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        full = "i/o error" in str(error).lower() and _is_full(path)
        raise StoreError(_sentence(path, "disk is full" if full else str(error))) from error
    except UnicodeDecodeError as error:  # SQLite repeats bytes of a damaged file in its message
        raise StoreError(_sentence(path, "malformed")) from error
    except OSError as error:
        text = "disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else str(error.strerror)
        raise StoreError(_sentence(path, text)) from error


def _is_full(path: Path) -> bool:
    """True if the disk of a path has less than 1 MiB left. SQLite reports that as an I/O error."""
    with contextlib.suppress(OSError):
        state = os.statvfs(next(place for place in (path, *path.absolute().parents) if place.exists()))
        return state.f_bavail * state.f_frsize < (1 << 20)
    return False


def _sentence(path: Path, trouble: str) -> str:
    lower = trouble.lower()
    if "full" in lower:
        return f"The disk that holds the store {path} is full; make room or name another with --store. Nothing is lost."
    if "malformed" in lower:
        return (
            f"{path}/store.db is damaged ({trouble}); name another folder with --store. What is left of it can be saved"
            " with: sqlite3 store.db .recover"
        )
    if "not a database" in lower:
        return f"{path}/store.db is not a Driftline store; name another folder with --store."
    if (
        "readonly" in lower
        or "read-only" in lower
        or "permission" in lower
        or "unable to open" in lower
        or "another user" in lower
    ):
        return f"The store {path} cannot be written ({trouble}); change its permissions or name another with --store."
    if "locked" in lower:
        return f"The store {path} has been locked by another process for a minute; wait for it or use another store."
    return f"The store {path} cannot be used: {trouble}. Name another with --store."


def now() -> str:
    """Return the present time in the format of the store."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
