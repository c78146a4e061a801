"""A campaign of many shards, simulated from a real store, and how long and in how much memory it is merged.

python benchmarks/merge.py --from .driftline --shards 1000

Every shard is a store with a hunt of its own and a tenth of the bugs of the real store, drawn by chance, with their
findings, cases and objects. A tenth of the shards is merged first and then all of them, each by `driftline store
merge` in a process of its own: memory is flat if both have the same peak.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from driftline.store import Store
from driftline.store.source import open_source

TURNS = 20  # of each shard's hunt
SHARE = 0.1  # of the bugs


def make_shard(real: sqlite3.Connection, objects: Path, folder: Path, number: int, shards: int) -> None:
    rng = random.Random(number)
    Store.create(folder).close()
    with closing(sqlite3.connect(folder / "store.db", isolation_level=None)) as database:
        database.execute("PRAGMA synchronous=OFF")
        database.execute("BEGIN")
        names = [row[0] for row in real.execute("SELECT id FROM bugs ORDER BY id")]
        for bug in rng.sample(names, max(1, int(SHARE * len(names)))):
            copy(real, database, "bugs", "id = ?", bug)
            copy(real, database, "findings", "bug = ?", bug)
            copy(real, database, "cases", "id IN (SELECT case_id FROM findings WHERE bug = ?)", bug)
        moment = f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
        plan = json.dumps({"seed": 0, "shard": f"{number + 1}/{shards}"})
        database.execute("INSERT INTO hunts VALUES (1, ?, '{}', ?, ?, ?)", (plan, moment, moment, float(number)))
        turns = real.execute("SELECT lane, body FROM turns ORDER BY RANDOM() LIMIT ?", (TURNS,)).fetchall()
        database.executemany(
            "INSERT INTO turns VALUES (1, ?, ?, ?)", [(lane, at, body) for at, (lane, body) in enumerate(turns)]
        )
        suspects = real.execute("SELECT lane, turn, body, state, bug FROM suspects ORDER BY RANDOM() LIMIT ?", (TURNS,))
        database.executemany(
            "INSERT INTO suspects (hunt, lane, turn, body, state, bug) VALUES (1, ?, ?, ?, ?, ?)", suspects.fetchall()
        )
        database.execute("COMMIT")
        bodies = [row[0] for row in database.execute("SELECT body FROM cases")]
    for path in objects.glob("*/*"):
        if any(path.parent.name + path.name in body for body in bodies):
            (folder / "objects" / path.parent.name).mkdir(exist_ok=True)
            os.link(path, folder / "objects" / path.parent.name / path.name)


def copy(real: sqlite3.Connection, database: sqlite3.Connection, table: str, where: str, value: str) -> None:
    for row in real.execute(f"SELECT * FROM {table} WHERE {where}", (value,)):
        database.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})", row)


def merged(stores: list[Path], into: Path) -> dict[str, object]:
    command = [sys.executable, "-m", "driftline", "store", "merge", *map(str, stores), "--into", str(into), "--json"]
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        out.seek(0)
        told = json.load(out)
    assert os.waitstatus_to_exitcode(status) == 0, told
    seconds = time.monotonic() - begun
    added = {name: count for name, count in told["added"].items() if name in ("bugs", "findings", "hunts", "suspects")}
    return {
        "stores": len(stores),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_MiB": usage.ru_maxrss >> 10,
        **added,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="real", type=Path, default=Path(".driftline"), help="a store that hunts wrote")
    parser.add_argument("--shards", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.real.resolve().parent) as folder:  # where links to objects can be made
        stores = [Path(folder) / f"shard-{number + 1}" for number in range(given.shards)]
        with open_source(given.real) as source:
            for number, path in enumerate(stores):
                make_shard(source.database, given.real / "objects", path, number, given.shards)
        print(json.dumps(merged(stores[: max(1, given.shards // 10)], Path(folder) / "a tenth")))
        print(json.dumps(merged(stores, Path(folder) / "all")))
        print(json.dumps(merged(stores[-1:], Path(folder) / "all")))


if __name__ == "__main__":
    main()
