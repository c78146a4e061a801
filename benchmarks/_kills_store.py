"""What benchmarks/kills.py looks at in a store: what is committed, what is gone, what cannot be read. And a writer that
stores one thing after another, as commands do, without a compiler.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import sqlite3
import time
from pathlib import Path

import numpy as np

from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.program import Program, SourceBundle, file_digest
from driftline.core.target import Target
from driftline.core.tensors import TensorSpec
from driftline.core.verdict import Fingerprint, Status
from driftline.store import Store
from driftline.store.audits import AuditLog, AuditMemory
from driftline.store.diagnoses import Diagnoses
from driftline.store.hunts import HuntLog, SuspectBody, Turn, TurnBody
from driftline.store.reductions import Answers, Reductions

Rows = dict[tuple[str, ...], str]  # a table and the key of a row; what must stay as it is

# What a row goes by, and what of it never changes once it is written; it may be nothing but being there.
_TABLES = {
    "bugs": ("id", "''"),
    "findings": ("bug || ' ' || case_id || ' ' || target", "''"),
    "cases": ("id", "body"),
    "hunts": ("id", "plan"),
    "turns": ("hunt || ' ' || lane || ' ' || number", "body"),
    "suspects": ("id", "CASE WHEN state = 'waiting' THEN '' ELSE state || bug END"),
    # A scout's answer is asked for once more, alone, and then replaced.
    "answers": ("key", "CASE WHEN json_extract(body, '$.scouted') THEN '' ELSE body END"),
    "audits": ("id", "plan"),
    "audit_rules": ("audit || ' ' || step || ' ' || rule", "CASE WHEN step = 'fired' THEN '' ELSE body END"),
    "reductions": ("bug", "''"),
    "diagnoses": ("bug || ' ' || step", "''"),
}


def committed(store: Path) -> Rows:
    """Every row that another process can read now. Nothing, where there is no store yet."""
    found: Rows = {}
    with contextlib.suppress(sqlite3.OperationalError):  # not there yet, or the first process is making it
        database = sqlite3.connect(f"file:{store / 'store.db'}?mode=ro", uri=True, timeout=5)
        with contextlib.closing(database):
            database.execute("BEGIN")  # one moment for all tables
            for table, (key, lasting) in _TABLES.items():
                for row in database.execute(f"SELECT {key}, {lasting} FROM {table}"):
                    found[table, str(row[0])] = hashlib.sha256(str(row[1]).encode()).hexdigest() if row[1] else ""
    return found


def has_unfinished(store: Path, table: str) -> bool:
    """Is there a hunt or an audit that did not come to its end?"""
    with contextlib.suppress(sqlite3.OperationalError):
        database = sqlite3.connect(f"file:{store / 'store.db'}?mode=ro", uri=True, timeout=5)
        with contextlib.closing(database):
            return bool(database.execute(f"SELECT COUNT(*) FROM {table} WHERE finished = ''").fetchone()[0])
    return False


def progress(rows: Rows) -> int:
    """How much there is: rows, and suspects that are settled."""
    return len(rows) + sum(key[0] == "suspects" and bool(held) for key, held in rows.items())


def lost(before: Rows, after: Rows) -> list[str]:
    gone = [" ".join(key) for key in before if key not in after]
    changed = [" ".join(key) for key, held in before.items() if held and after.get(key, held) != held]
    return [f"lost: {name}" for name in gone[:5]] + [f"changed: {name}" for name in changed[:5]]


def unreadable(store: Path) -> list[str]:
    """What cannot be read as the next command would read it; and whether it can write at once."""
    if not (store / "store.db").exists():
        return []
    problems = []
    began = time.monotonic()
    try:
        with Store.open(store) as opened:
            with opened.transaction() as database:
                if (said := database.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
                    problems.append(f"integrity: {said}")
            for bug in opened.bugs():
                opened.bug(bug.id)
            for (case,) in opened.query("SELECT id FROM cases"):
                opened.load_case(case)
            problems += [f"gap: {gap}" for gap in opened.gaps]
    except DriftlineError as error:
        problems.append(f"unreadable: {error}")
    if time.monotonic() - began > 10:
        problems.append(f"it took {time.monotonic() - began:.0f} s to open and read the store")
    return problems


def write_without_end(path: Path, seed: int) -> None:
    """Turns with suspects, findings with programs and tensors, answers, what an audit remembers: one after another."""
    log_folder = path.with_name(f"{path.name}-programs")
    log_folder.mkdir(exist_ok=True)
    with Store.create(path) as store:
        hunts, answers = HuntLog(store), Answers(store)
        hunt = hunts.begin({"seed": seed}, {})
        audit = AuditMemory(store, AuditLog(store).begin({"seed": seed}))
        for number in itertools.count():
            name = f"{hunt.id}-{number}"
            suspects = [SuspectBody({}, new, "error", "RUN", "wrong") for new in (True, False)]
            hunts.add_turn(hunt, Turn("lane", number, TurnBody(2, 1.0, {"pass": 2})), suspects)
            for suspect in hunts.waiting(hunt, "lane", new=True, most=1):
                bug = _add(store, log_folder / f"program-{name}", name)
                hunts.settle(suspect, "bug", [bug])
                Reductions(store).save(bug, {"number": number})
                Diagnoses(store).save(bug, "localize", {"number": number})
            answers[f"question {name}"] = {"fails": True}
            audit.keep_all("asked", {f"{name} {at}": {"fired": []} for at in range(3)})


def _add(store: Store, path: Path, name: str) -> str:
    path.write_bytes(SourceBundle("m.py", "f", {"m.py": name * 500}).dump())
    program = Program("source", "torch", file_digest(path), path, "m.py:f", (TensorSpec("x", "float32", (3,)),))
    inputs = Inputs({"x": np.full(2000, len(name), np.float32)}, "example")
    target = Target("inductor")
    bug = store.add_finding(
        Fingerprint("inductor", "RUN", "wrong-value", name),
        Case(program, (inputs,), (target,), CheckOptions()),
        target,
        summary="wrong",
        status=Status.NEW,
        verdict={},
        execution={},
    )
    path.unlink()
    return bug.id
