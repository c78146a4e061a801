"""Does a hunt use the processors it is given? The same hunt with 1, 2, 4, 8, 16 ... jobs, as far as there are cores.

    python benchmarks/scaling.py                                          # ONNX Runtime, TorchInductor, all together
    python benchmarks/scaling.py --targets onnxruntime --seconds 60 --jobs 2,16 --json curve.json
    python benchmarks/scaling.py --targets all --seconds 30 --jobs 2,16 --same-work --warm

For each hunt: judged programs (pass, fail, inconclusive) and how many times those of the first row; how many times
sooner it came to the programs that both rows have (the same seed makes the same ones); when the first was judged and
the first bug seen; the cores that were busy on average, and where the processor time went: the parent
process, the foremen beside it, workers by their kind, and what they started (a C++ compiler); the largest memory of a
worker with what it started, beyond what it shares with others. Below each hunt, what its threads did on average: how
many ran which task, and how many waited for what (`_thread_states.py`). Every hunt begins with cold workers; with
--warm, compilers are imported and have judged a few programs before the clock starts. Compilers' caches are private to
the run and empty at its start. With --same-work a hunt with fewer jobs gets as much more time, so that all rows come
to about the same programs: in the same time a faster hunt comes to others besides, which are larger. First, what the
machine itself gives: rounds of plain Python and NumPy in as many processes, without Driftline, so that a curve can be
read against the best that these cores can do.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from _thread_states import ThreadStates
from hunt_rates import Hunted, hunted

from driftline.campaign.hunt.foremen import PLACES, Foremen
from driftline.campaign.hunt.plan import choose_lanes
from driftline.execute.pool import Pool
from driftline.execute.processors import all_cores

LOOK = 1.0  # seconds between two looks at the processes
MEMORY_EVERY = 5  # looks: to read what memory is shared takes long
AIM = 6.0  # times the judged programs, from 2 jobs to 16
WARM_UP = 90.0  # seconds
PLAIN_SECONDS = 8.0
PLAIN = """\
import sys, time
import numpy as np
table, rounds, end = np.ones((300, 300)), 0, time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    sum(number * number for number in range(20_000))
    (table * table + 1.0).sum()
    rounds += 1
print(rounds)
"""


@dataclass
class Watch:
    """Where processor time and memory go, read while a hunt runs: processes that live less than a look are missed, and
    their time is in that of the process that waited for them."""

    seconds: dict[int, tuple[str, float]] = field(default_factory=dict)  # pid -> kind, seconds
    largest: int = 0  # bytes of a worker with what it started, that it shares with nobody
    whole: int = 0  # bytes of all processes together
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Watch:
        self._before = {pid: seconds for pid, (_, seconds) in self._read().items()}
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        looks = 0
        while not self._over.wait(LOOK):
            self.seconds |= self._read()
            looks += 1
            if looks % MEMORY_EVERY == 0:
                self._measure()

    @staticmethod
    def _read() -> dict[int, tuple[str, float]]:
        own = psutil.Process()
        found: dict[int, tuple[str, float]] = {own.pid: ("parent", sum(own.cpu_times()[:2]))}
        of_pools = {own.pid, *(one.pid for one in _foremen())}
        for process in own.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                python = process.name().startswith("python")
                times = process.cpu_times()
                kind = "Python" if python else process.name()
                if process.pid in of_pools:
                    kind = "foremen"
                elif process.ppid() in of_pools:
                    kind = "imports"
                found[process.pid] = kind, times.user + times.system + (0 if python else times.children_user)
        return found

    def _measure(self) -> None:
        whole = 0
        foremen = _foremen()
        for nursery in [child for one in (psutil.Process(), *foremen) for child in one.children()]:
            if nursery in foremen:
                continue
            with contextlib.suppress(psutil.Error):
                whole += nursery.memory_full_info().uss
                for worker in nursery.children():
                    with contextlib.suppress(psutil.Error):
                        family = [worker, *worker.children(recursive=True)]
                        size = sum(one.memory_full_info().uss for one in family)
                        self.largest = max(self.largest, size)
                        whole += size
        self.whole = max(self.whole, whole)

    @property
    def by_kind(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for pid, (kind, seconds) in self.seconds.items():
            found[kind] += round(seconds - self._before.get(pid, 0.0), 1)
        return found


def _foremen() -> list[psutil.Process]:
    """The processes that carry out turns beside this one."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if any("campaign.hunt.foreman" in word for word in child.cmdline()):
                found.append(child)
    return found


@dataclass(frozen=True)
class Row:
    """One hunt."""

    targets: str
    jobs: int
    hunt: Hunted
    watch: Watch
    threads: Mapping[str, float]

    @property
    def busy(self) -> float:
        return self.hunt.processor / self.hunt.seconds

    def to_json(self) -> dict[str, Any]:
        return {
            **self.hunt.to_json(),
            "targets": self.targets,
            "jobs": self.jobs,
            "busy": self.busy,
            "by_kind": self.watch.by_kind,
            "threads": self.threads,
            "largest_worker": self.watch.largest,
            "memory": self.watch.whole,
            "ends_of_turns": [(round(at, 1), programs, round(took, 1)) for at, programs, took, _ in self.hunt.turns],
        }

    def sooner(self, first: Row) -> float:
        """How many times sooner it came to the programs that the first row has too, on the average of the targets."""
        times = self.sooner_by_target(first).values()
        return statistics.geometric_mean(times) if times else math.nan

    def sooner_by_target(self, first: Row) -> dict[str, float]:
        """The same seed makes the same programs. Those that only one of them came to are left out: the first ones are
        lone operators, and later ones take longer."""
        times = {}
        for target, curve in first.hunt.curves.items():
            if mine := self.hunt.curves.get(target):
                programs = min(curve[-1][1], mine[-1][1])
                times[target] = _until(curve, programs) / _until(mine, programs)
        return times

    def cells(self, first: Row) -> list[str]:
        hunt = self.hunt
        times = f"{hunt.judged / max(1, first.hunt.judged):.1f}"
        kinds = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in self.watch.by_kind.most_common(4) if seconds)
        return [
            self.targets, str(self.jobs), str(hunt.judged), times, f"{self.sooner(first):.1f}",
            _at(hunt.first_judged), _at(hunt.first_bug),
            str(hunt.bugs), f"{self.busy:.1f}", f"{1e3 * hunt.parent / max(1, hunt.judged):.1f} ms", kinds,
            f"{self.watch.largest >> 20} MiB", f"{self.watch.whole >> 20} MiB",
        ]  # fmt: skip


HEADER = [
    "targets", "jobs", "judged", "times", "same programs sooner", "first judged", "first bug", "bugs", "cores busy",
    "parent for each", "processor time", "largest worker", "all",
]  # fmt: skip


def _until(curve: list[tuple[float, int]], programs: int) -> float:
    """The seconds until so many programs were done."""
    return next(at for at, count in curve if count >= programs)


def _at(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.1f} s"


def measured(
    targets: list[str], name: str, jobs: int, seconds: float, scratch: Path, seed: int, warm: bool, alone: bool
) -> Row:
    with Pool() as pool, Foremen(0 if alone else jobs) as foremen:
        if warm:
            programs = 8 * max(1, jobs // PLACES)  # for each process that hands out turns
            folder = scratch / f"warm-{name}-{jobs}"
            hunted(targets, WARM_UP, folder, seed + 1, pool, jobs, programs=programs, foremen=foremen)
        with Watch() as watch, ThreadStates() as states:
            hunt = hunted(targets, seconds, scratch / f"{name}-{jobs}", seed, pool, jobs, foremen=foremen)
    return Row(name, jobs, hunt, watch, states.mean)


def plain_rounds(jobs: int) -> int:
    """What so many processes do together in a few seconds that have nothing to do with one another."""
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PLAIN, str(PLAIN_SECONDS)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=alone) for _ in range(jobs)]
    return sum(int(process.communicate()[0]) for process in running)


def main() -> int:
    arguments = _arguments()
    plain = {jobs: plain_rounds(jobs) for jobs in arguments.jobs}
    times = {jobs: rounds / plain[arguments.jobs[0]] for jobs, rounds in plain.items()}
    told = ", ".join(f"{jobs}: {gain:.1f} times" for jobs, gain in times.items())
    ceiling = f"Plain work in as many processes: {told}"
    print(ceiling, flush=True)
    everything = ",".join(str(target) for target in choose_lanes(None)[0])
    rows: list[Row] = []
    met = True
    with tempfile.TemporaryDirectory(prefix="driftline-bench-") as scratch:
        for text in arguments.targets:
            curve: list[Row] = []
            for jobs in arguments.jobs:
                folder = Path(scratch, f"cache-{text}-{jobs}".replace(":", "-"))
                os.environ["DRIFTLINE_CACHE"] = str(folder)
                targets = (everything if text == "all" else text).split(",")
                longer = max(arguments.jobs) / jobs if arguments.same_work else 1.0
                row = measured(
                    targets,
                    text,
                    jobs,
                    arguments.seconds * longer,
                    Path(scratch),
                    arguments.seed,
                    arguments.warm,
                    arguments.alone,
                )
                curve.append(row)
                print(" | ".join(row.cells(curve[0])), flush=True)
                print("    " + ", ".join(f"{state} {count:g}" for state, count in row.threads.items()), flush=True)
                if len(targets) > 1:
                    by_target = row.sooner_by_target(curve[0])
                    told = ", ".join(f"{target} {gain:.1f}" for target, gain in by_target.items())
                    print(f"    sooner: {told}", flush=True)
                for problem in row.hunt.problems:
                    print(f"    {problem}", flush=True)
            rows += curve
            by_jobs = {row.jobs: row for row in curve}
            if {2, 16} <= set(by_jobs):
                two, sixteen = by_jobs[2], by_jobs[16]
                gain = sixteen.sooner(two) if arguments.same_work else sixteen.hunt.judged / max(1, two.hunt.judged)
                met = met and gain >= AIM
    print(f"\n| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    for row in rows:
        first = next(one for one in rows if one.targets == row.targets)
        print(f"| {' | '.join(row.cells(first))} |")
    each = f"{arguments.seconds:.0f} s {'with most jobs, longer with fewer' if arguments.same_work else 'each'}"
    what = "sooner at the same programs" if arguments.same_work else "the judged programs"
    print(f"\n{all_cores()} cores, {each}, seed {arguments.seed}; aim: {AIM:g} times {what} from 2 to 16. {ceiling}.")
    if arguments.json:
        arguments.json.write_text(json.dumps([row.to_json() for row in rows], indent=1))
    return 0 if met else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--targets", action="append", metavar="LIST", help="of one hunt; may be given again; `all`: all that are here"
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="of each hunt")
    parser.add_argument("--jobs", metavar="LIST", help="default: 1, 2, 4 ... up to the number of cores")
    parser.add_argument("--warm", action="store_true", help="start the clock when all compilers are warm")
    parser.add_argument("--same-work", action="store_true", help="as much more time for hunts with fewer jobs")
    parser.add_argument("--alone", action="store_true", help="no foremen: the hunt's own process hands out everything")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="everything measured, as JSON")
    arguments = parser.parse_args()
    arguments.targets = arguments.targets or ["onnxruntime", "inductor", "all"]
    powers = [1 << power for power in range(all_cores().bit_length())]
    try:
        arguments.jobs = [int(word) for word in arguments.jobs.split(",")] if arguments.jobs else powers
    except ValueError:
        parser.error(f"--jobs {arguments.jobs}: numbers with commas between them, such as 1,2,4")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
