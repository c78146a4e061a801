"""Damage for stores that stay valid SQLite: values in rows are replaced, removed, or nested without end.

A JSON column is damaged somewhere inside; another column gets a value of a type that it should not have.
"""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.program import Program, SourceBundle, file_digest
from driftline.core.target import Target
from driftline.core.tensors import TensorSpec
from driftline.core.verdict import Fingerprint, Status
from driftline.store import Store
from driftline.store.checks import CheckLog
from driftline.store.diagnoses import Diagnoses
from driftline.store.hunts import HuntLog, SlowProgram, SuspectBody, Turn, TurnBody
from driftline.store.reductions import Reductions
from driftline.store.tries import ModelTry

BAD: tuple[Any, ...] = (
    None, 3, -1, 1e400, float("nan"), 10**30, "", "\x00", "x" * 5000, [], {}, [1], {"a": 1}, True, "../../etc/passwd",
    "\ud800", [[[]]], {"is": "x"}, [None], 1 << 63, "a b c", [{}],
)  # fmt: skip
PLAIN: tuple[Any, ...] = ("", "x" * 3000, b"\xff\x00", 3, 2.5, -1, "\x00a", "9999-99-99", 1e308, 1 << 62, "[/x]")
# By table: columns of JSON, and others. Keys are left as they are: without them a row is only lost.
COLUMNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "cases": (("body",), ("created",)),
    "bugs": (("fingerprint",), ("status", "summary", "first_seen", "last_seen")),
    "findings": (("verdict", "execution"), ("target", "created", "case_id")),
    "hunts": (("plan", "environment"), ("started", "finished", "seconds")),
    "turns": (("body",), ("lane", "number")),
    "suspects": (("body",), ("state", "lane", "bug", "turn")),
    "reductions": (("body",), ("created",)),
    "diagnoses": (("body",), ("step", "created")),
    "checks": ((), ("name", "form", "version", "judgement", "runs", "fails", "last")),
}


STEPS = ("localize", "ablate", "bisect", "layers", "pairwise")


def damage(place: Path, rng: random.Random) -> list[str]:
    """Damage one or two rows of the store in a folder. Return which columns."""
    done: list[str] = []
    with closing(sqlite3.connect(place / "store.db", isolation_level=None)) as database:
        database.execute("PRAGMA foreign_keys=OFF")
        filled = [table for table in COLUMNS if database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()]
        for _ in range(rng.choice((1, 1, 2))):
            table = rng.choice(filled)
            (row,) = rng.choice(database.execute(f"SELECT rowid FROM {table} ORDER BY rowid").fetchall())
            values, plain = COLUMNS[table]
            if values and rng.random() < 0.8:
                column = rng.choice(values)
                (text,) = database.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)).fetchone()
                with suppress(ValueError, TypeError, RecursionError):  # it was damaged before
                    done += _write(database, table, column, row, json.dumps(_mutated(json.loads(text), rng)))
            elif plain:
                done += _write(database, table, rng.choice(plain), row, rng.choice(PLAIN))
    return done


def _write(database: sqlite3.Connection, table: str, column: str, row: int, value: Any) -> list[str]:
    with suppress(sqlite3.Error):  # a constraint forbids it
        database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, row))
        return [f"{table}.{column} = {value!r:.300}"]
    return []


def _mutated(value: Any, rng: random.Random) -> Any:
    path = rng.choice(_paths(value, ()))
    if not path:
        return rng.choice(BAD)
    held = value
    for key in path[:-1]:
        held = held[key]
    if (chance := rng.random()) < 0.3:
        del held[path[-1]]
    else:
        held[path[-1]] = rng.choice(BAD) if chance < 0.95 else _nested(rng)
    return value


def _paths(value: Any, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path, *(found for key in keys for found in _paths(value[key], (*path, key)))]


def _nested(rng: random.Random) -> Any:
    value: Any = "x"
    for _ in range(rng.choice((90, 300))):
        value = [value] if rng.random() < 0.5 else {"results": value}
    return value


def fill(place: Path) -> tuple[str, str]:
    """Fill a store with every kind of row that the views read. Return the names of its bugs."""
    arrays = {"x": np.ones((2, 3), np.float32)}
    with Store.create(place) as store:
        names = [_add_bug(store, place, number, arrays) for number in range(2)]
        log = HuntLog(store)
        plan = {"targets": ["onnxruntime", "eager"], "generators": ["alone"], "inputs": ["random"], "seed": 0}
        left_out = {"left_out": ["the generator llm needs a model"], "python": "3.11"}
        hunt = log.begin(
            {**plan, "seconds": 45.0, "programs": 0, "timeout": 60.0, "llm": {"model": "m"}},
            {"versions": {"onnxruntime": "1.31", "eager": "2"}, **left_out},
        )
        log.add_turn(hunt, Turn("onnxruntime", 0, _TURN), _SUSPECTS, 12.5)
        log.settle(log.waiting(hunt, "onnxruntime")[0], "bug", names[:1])
        log.finish(hunt)
        Reductions(store).save(names[0], {"ended": "it is as small as it gets", "operators": 3})
        for step in STEPS:
            Diagnoses(store).save(names[0], step, {"summary": "s", "suspects": [], "cures": [], "rows": []})
        program = store.load_case(store.bug(names[0]).findings[0].case_id).program
        CheckLog(store).keep(program, [("onnxruntime", "1.31", "fail"), ("eager", "2", "pass")])
    with closing(sqlite3.connect(place / "store.db")) as database:
        database.execute("PRAGMA journal_mode=DELETE")
    return names[0], names[1]


_TURN = TurnBody(
    programs=2,
    seconds=1.5,
    counts={"pass": 1, "fail": 1},
    reasons={"fail": {"wrong-value": 1}},
    coverage={"tanh float32": {"pass": 1}, "exp float32": {"fail": 1}},
    arms=(("alone", "tanh", 2, 0.1),),
    keys=("rule fuse",),
    pairs=("tanh>exp",),
    features={"alone: several sizes": 1},
    tries=(ModelTry("fuse", "program", "m", "ran", 20, 30),),
    slowest=(SlowProgram(1.5, "run", "alone", "tanh", 0, "pass"),),
)
_REQUEST = {"generator": "alone", "arm": "tanh", "strategies": ["random"], "seed": "0", "mode": "program"}
_SUSPECTS = [
    SuspectBody({**_REQUEST, "number": number}, True, "wrong-value", "RUN", "it is wrong", operators=2, origin="random")
    for number in range(2)
]


def _add_bug(store: Store, place: Path, number: int, arrays: dict[str, Any]) -> str:
    path = place / f"program-{number}"
    path.write_bytes(SourceBundle("m.py", "f", {"m.py": f"x{number}"}).dump())
    inputs = (TensorSpec("x", "float32", (2, 3)),)
    program = Program("onnx", "onnx", file_digest(path), path, f"m{number}.onnx", inputs, ("y",), ("tanh", "softmax"))
    case = Case(program, (Inputs(arrays, "random"),), (Target("onnxruntime"),), CheckOptions(accept=("fast-exp",)))
    evidence = {
        "output": "y", "dtype": "float32", "elements": 6, "wrong": 1, "faults": ["finite-value"], "z": 11.0,
        "worst": [{"place": [1, 0], "expected": 1.0, "got": 2.0, "unoptimised": 1.0, "noise": 1e-7}],
    }  # fmt: skip
    facts = {"operators": ["Tanh"], "dtypes": ["float32"]}
    answers = [{"passes": "without", "value": "fast-exp", "answer": True}]
    verdict = {
        "verdict": "fail", "kind": "wrong-value", "reason": "wrong", "evidence": evidence, "failed_runs": [2, 2],
        "other_inputs": [1, 4], "blame": "", "others": {"eager": "pass"}, "title_facts": facts,
        "rule": {"name": "fuse", "where": "a.py:3"}, "without": "y", "mutation": "swap", "script": "print(1)\n",
        "sighting": {**facts, "machine": "x86_64", "settings": ["rank=2"], "answers": answers},
    }  # fmt: skip
    failure = {"type": "RuntimeError", "message": "m", "traceback": "t"}
    execution = {
        "target": "onnxruntime", "outcome": "OK", "stage": "RUN", "failure": failure if number else None,
        "durations": {"run": 0.1}, "version": "1.31", "converter": "", "taken_by": "", "log": "a line",
    }  # fmt: skip
    fingerprint = Fingerprint("onnxruntime", "RUN", "wrong-value", f"tanh of float {number}")
    told = {"summary": "wrong", "status": Status.NEW, "verdict": verdict, "execution": execution}
    bug = store.add_finding(fingerprint, case, Target("onnxruntime"), **told)  # type: ignore[arg-type]
    small = {"case": bug.findings[0].case_id, "evidence": evidence, "title_facts": facts}
    store.note_smallest(bug.id, bug.findings[0], small)
    return bug.id
