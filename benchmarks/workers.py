"""What isolation costs: a job on a warm worker, against the bare call in the process, and against a process per job.

    python benchmarks/workers.py [--rounds N] [--json]

Two programs: an ONNX model on ONNX Runtime, and a torch function on TorchInductor whose code is cached on disk already.
"In process" compiles and runs, and does nothing else: no files, no messages. Its rounds alternate with those of the
workers, and the overhead is the median of the differences within each round: measured one after the other, a change in
the machine's load between the two is larger than what is measured. The load is printed with the result.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.checking.written import write_case
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.execution import Outcome
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.core.wire import encode
from driftline.execute.pool import Pool, WorkerKind
from driftline.execute.requests import RunRequest
from driftline.execute.worker_kind import environment_of
from driftline.testing.programs import legitimate

AIMS = {"onnxruntime": 0.010, "inductor": 0.5}  # seconds a warm worker may add (ONNX Runtime), or take (Inductor)
PROGRAMS = {"onnxruntime": "onnx_conv", "inductor": "torch_conv"}

# The bare call, once for every line on stdin.
_IN_PROCESS = """
import json, sys, time
from pathlib import Path
from driftline.backends import BACKENDS
from driftline.core.wire import decode
from driftline.execute.requests import RunRequest
from driftline.programs.opened import OpenedProgram

request = decode(RunRequest, json.loads(sys.argv[1]))
backend, arrays = BACKENDS.get(request.backend), request.case.samples()[0]
for _ in sys.stdin:
    started = time.perf_counter()
    program = OpenedProgram.of(request.case, arrays)
    backend.compile(program, {})(arrays)
    print(time.perf_counter() - started, flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with Pool() as pool:
        rows = [measure(pool, backend, arguments.rounds) for backend in AIMS]
    print(json.dumps(rows, indent=1) if arguments.json else table(rows))


def measure(pool: Pool, backend: str, rounds: int) -> dict[str, Any]:
    case = make_case(pool, backend)
    target, checker = case.targets[0], Checker(pool)

    def execute(fresh: bool = False) -> None:
        execution = checker.execute(case, target, fresh=fresh)
        assert execution.outcome is Outcome.OK, execution.failure

    def start_over() -> None:
        with Pool() as other:
            assert Checker(other).execute(case, target).outcome is Outcome.OK

    execute()  # pays for the imports, and for Inductor's compilation
    bare: list[float] = []
    warm: list[float] = []
    forked: list[float] = []
    with InProcess(case, pool) as inside:
        inside.run()
        for _ in range(rounds):
            bare.append(inside.run())
            warm.append(timed(execute))
            forked.append(timed(lambda: execute(fresh=True)))
    started = statistics.median(timed(start_over) for _ in range(3))
    differences = [w - b for w, b in zip(warm, bare, strict=True)]
    overhead = statistics.median(differences)
    job = statistics.median(warm)
    return {
        "backend": backend,
        "in_process": statistics.median(bare),
        "warm_worker": job,
        "fresh_fork": statistics.median(forked),
        "fresh_process": started,
        "overhead": overhead,
        "overhead_range": [min(differences), max(differences)],
        "fresh_process_over_warm": started / job,
        "aim": AIMS[backend],
        "met": (overhead if backend == "onnxruntime" else job) < AIMS[backend],
        "load": os.getloadavg()[0],
    }


def make_case(pool: Pool, backend: str) -> Case:
    (program,) = (p for p in legitimate(["torch", "onnx"]) if p.name == PROGRAMS[backend])
    bundle: SourceBundle = program.bundle
    options = CheckOptions()
    opened = open_source(bundle, pool, options)
    return Case(opened.program, (Inputs(opened.example, "example"),), (Target(backend),), options)


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class InProcess:
    """A process without a pool, with the variables that workers have, which repeats the bare call when asked."""

    def __init__(self, case: Case, pool: Pool) -> None:
        request = RunRequest(write_case(pool.workspace, case), case.targets[0].backend, {})
        self._process = subprocess.Popen(
            [sys.executable, "-c", _IN_PROCESS, json.dumps(encode(RunRequest, request))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment_of(WorkerKind("benchmark"), pool.workspace),
        )

    def run(self) -> float:
        assert self._process.stdin and self._process.stdout
        print("", file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def table(rows: list[dict[str, Any]]) -> str:
    columns = ("in_process", "warm_worker", "fresh_fork", "fresh_process", "overhead")
    lines = [f"{'milliseconds per job':22}" + "".join(f"{c.replace('_', ' '):>15}" for c in columns) + f"{'aim':>9}"]
    for row in rows:
        cells = "".join(f"{row[c] * 1e3:15.1f}" for c in columns)
        lines.append(f"{row['backend']:22}{cells}{row['aim'] * 1e3:9.0f}  {'met' if row['met'] else 'MISSED'}")
    for row in rows:
        low, high = (seconds * 1e3 for seconds in row["overhead_range"])
        lines.append(
            f"{row['backend']}: a process per job costs {row['fresh_process_over_warm']:.0f} times a warm worker;"
            f" overhead of single rounds from {low:.1f} to {high:.1f} ms; load {row['load']:.1f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
