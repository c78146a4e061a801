"""Damaged files of every kind that Driftline reads: each is taken or refused in one sentence, soon, in little memory.

    python benchmarks/fuzz.py                       100,000 files
    python benchmarks/fuzz.py --count 3000 --seed 7 --only onnx,npz

A file that reaches a line of Driftline that no file before it has reached is kept and damaged further. Work is done in
forked processes, in pieces, so that one that dies, hangs or grows is a result. Exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "fuzz"))

from subjects import SUBJECTS, Subject

import driftline

ROOT = str(Path(driftline.__file__).parent)
PIECE = 250  # files that one process reads
HANG = 10  # seconds
MEMORY = 500 << 20
MOST_KEPT = 4 << 20  # digits of a file with a fault
KEPT = 200  # files that are damaged further, at most


class _Lines:
    """The lines of Driftline that were reached."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int]] = set()

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(ROOT):
            return None
        self.seen.add((frame.f_code.co_filename[len(ROOT) :], frame.f_lineno))
        return self.trace


def _hangs(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("it hangs")


def piece(
    subject: Subject, seeds: list[bytes], count: int, seed: str, seen: set[tuple[str, int]], in_hand: Path
) -> dict[str, Any]:
    """Damage and read so many files, in this process. The one that is read now lies in `in_hand`."""
    rng = random.Random(seed)
    lines = _Lines()
    lines.seen |= seen
    counts: Counter[str] = Counter()
    faults: list[dict[str, str]] = []
    kept: list[bytes] = []
    slowest = 0.0
    signal.signal(signal.SIGALRM, _hangs)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            data = subject.change(rng.choice(seeds), seeds, rng)
            reached = len(lines.seen)
            began = time.monotonic()
            own = Path(folder) / str(number)
            own.mkdir()
            in_hand.write_bytes(data)
            signal.alarm(HANG)
            if subject.guided:
                sys.settrace(lines.trace)
            try:
                counts[subject.judge(data, own)] += 1
            except BaseException as error:
                sys.settrace(None)
                counts["raised"] += 1
                faults.append({"error": f"{type(error).__name__}: {error}", "file": data.hex()[:MOST_KEPT],
                               "where": traceback.format_exc()[-1500:]})  # fmt: skip
            finally:
                sys.settrace(None)
                signal.alarm(0)
            slowest = max(slowest, time.monotonic() - began)
            if len(lines.seen) > reached and len(kept) < KEPT:
                kept.append(data)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"counts": counts, "faults": faults[:5], "kept": [data.hex() for data in kept], "slowest": slowest,
            "memory": memory, "seen": sorted(lines.seen - seen)}  # fmt: skip


def in_a_process(
    subject: Subject, seeds: list[bytes], count: int, seed: str, seen: set[tuple[str, int]]
) -> dict[str, Any]:
    """A piece in a process of its own. One that dies was killed by the file that it had in hand, which is kept."""
    with tempfile.NamedTemporaryFile("w+") as answer, tempfile.NamedTemporaryFile() as in_hand:
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # readers in C++ complain there
            resource.setrlimit(resource.RLIMIT_CPU, (PIECE * HANG, PIECE * HANG))
            try:
                json.dump(piece(subject, seeds, count, seed, seen, Path(in_hand.name)), answer)
                answer.flush()
            finally:
                os._exit(0)
        _, status = os.waitpid(pid, 0)
        answer.seek(0)
        text = answer.read()
        if text:
            return dict(json.loads(text))
        died = {"error": f"the process died ({status})", "file": in_hand.read().hex(), "where": ""}
        return {"counts": {"died": 1}, "faults": [died], "kept": [], "slowest": 0.0, "memory": 0, "seen": []}


def fuzz(subject: Subject, count: int, seed: int, keep: Path | None = None) -> dict[str, Any]:
    """All files of one kind; those that end a process go to the folder `keep`."""
    seeds = subject.seeds()
    seen: set[tuple[str, int]] = set()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        subject.judge(seeds[0], Path(folder))  # imports what it needs, which takes longer than any file may
    faults: list[Any] = []
    slowest, memory, number = 0.0, 0, 0
    while sum(counts.values()) < count:
        due = min(PIECE, count - sum(counts.values()))
        made = in_a_process(subject, seeds, due, f"{subject.name}/{seed}/{number}", seen)
        number += 1
        counts.update(made["counts"])
        if "died" in made["counts"]:
            counts["died"] += due - 1  # of which we know nothing
        faults += made["faults"]
        if "died" in made["counts"] and keep:
            name = f"{subject.name}-{number}{subject.suffix}"
            (keep / name).write_bytes(bytes.fromhex(made["faults"][0]["file"]))
            print(f"    the file that ended the process: {keep / name}", flush=True)
        seeds += [bytes.fromhex(data) for data in made["kept"]][: max(0, KEPT - len(seeds))]
        seen |= {tuple(line) for line in made["seen"]}
        slowest, memory = max(slowest, made["slowest"]), max(memory, made["memory"])
    return {"files": sum(counts.values()), "counts": dict(counts), "lines": len(seen), "kept": len(seeds),
            "slowest": round(slowest, 2), "memory": memory, "faults": faults}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(subject.name for subject in SUBJECTS))
    parser.add_argument("--keep", type=Path, help="a folder for files that end a process")
    parser.add_argument("--out", type=Path, help="write the faults, with their files, as JSON")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [subject for subject in SUBJECTS if subject.name in arguments.only.split(",")]
    parts = sum(subject.share for subject in chosen)
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    results = {}
    for subject in chosen:
        began = time.monotonic()
        found = fuzz(subject, max(1, arguments.count * subject.share // parts), arguments.seed, arguments.keep)
        results[subject.name] = found
        print(
            f"{subject.name:12} {found['files']:7,} files  {found['counts']}  {found['lines']} lines reached"
            f"  slowest {found['slowest']} s  {found['memory'] >> 20} MiB  in {time.monotonic() - began:.0f} s",
            flush=True,
        )
        for fault in found["faults"][:3]:
            print(f"    {fault['error'][:200]}\n{fault['where'][-600:]}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(results))
    bad = any(found["faults"] or found["memory"] > MEMORY or found["slowest"] >= HANG for found in results.values())
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
