"""Does anything grow when Driftline runs for hours? Hunts one after the other in one process, watched from another.

    python benchmarks/soak.py --hunts 4 --each 30m --seed 7001 --stores soak --out soak.jsonl
    python benchmarks/soak.py --read soak.jsonl            # the table, also while it runs

Each hunt is `driftline.open(store).hunt(...)` on every installed compiler, with a seed and a store of its own. Every
fifteen seconds the process that hunts (the parent), its nurseries and its workers are asked for their memory (resident,
and proportional where the kernel says it), open descriptors and threads; its scratch folder for its size and number of
files; and the machine for orphans: processes that belong to the hunt and have no parent in it. Each answer is a line of
the file, written at once.

At the end, each quantity is fitted by a straight line after the warm-up of every hunt, with an interval from resampling
blocks of neighbouring samples (they are not independent). A quantity grows if the whole interval is above zero, and it
would gain more than a tenth of what it is in a day. Hunts must have had about the same processor time, which the number
of programs shows: one that is starved uses less of everything. Exits 1 if something grows, or an orphan stayed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _lines import append_line, read_lines

from driftline.core.config import cache_home
from driftline.execute.processes import children, descendants, tagged

EVERY = 15.0  # seconds between samples
WARM_UP = 300.0  # seconds of each hunt that are left out of the fit
BLOCK = 8  # samples: two minutes, longer than what one batch of programs does to memory
RESAMPLES = 2000
SLACK = 0.1  # of the median, in a day: what is not told from flat
MIB = 2**20
QUANTITIES = {
    "parent_rss": "memory of the parent, MiB",
    "nursery_rss": "memory of a nursery (the largest), MiB",
    "all_pss": "memory of all, shared pages once, MiB",
    "processes": "processes",
    "parent_fds": "descriptors of the parent",
    "nursery_fds": "descriptors of a nursery (the most)",
    "parent_threads": "threads of the parent",
    "scratch_mib": "scratch folder, MiB",
    "scratch_files": "files in the scratch folder",
    "orphans": "orphans",
}


# -- the process that hunts --------------------------------------------------------------------------------------------


def drive(arguments: argparse.Namespace) -> int:
    """The hunts, one after the other. What each brought is a line of the file too."""
    import driftline

    for seed in range(arguments.seed, arguments.seed + arguments.hunts):
        started = time.time()
        append_line(arguments.out, {"what": "begin", "seed": seed, "at": started})
        with driftline.open(arguments.stores / str(seed)) as bench:
            result = bench.hunt(seconds=seconds_of(arguments.each), targets=arguments.targets, seed=seed)
            line = {
                "what": "end", "seed": seed, "at": time.time(), "seconds": time.time() - started,
                "programs": result.programs, "judged": result.judged, "settled": result.settled,
                "bugs": len(result.bugs), "internal": result.internal_errors, "stopped": result.stopped,
            }  # fmt: skip
        append_line(arguments.out, line)
    return 0


# -- the process that watches ------------------------------------------------------------------------------------------


def watch(arguments: argparse.Namespace) -> int:
    """Start the hunts and sample them until they are over."""
    command = [sys.executable, __file__, "--drive", *sys.argv[1:]]
    hunting = subprocess.Popen(command)
    started = time.time()
    append_line(arguments.out, {"what": "start", "at": started, "pid": hunting.pid, "each": seconds_of(arguments.each)})
    suspected: set[int] = set()
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            hunting.wait(EVERY)
            break
        sample, suspected = sampled(hunting.pid, suspected)
        append_line(arguments.out, {"what": "sample", "at": time.time(), **sample})
    left = tagged(tag_of(hunting.pid))
    append_line(arguments.out, {"what": "over", "at": time.time(), "code": hunting.returncode, "left": len(left)})
    return hunting.returncode or read(arguments.out)


def sampled(pid: int, suspected: set[int]) -> tuple[dict[str, Any], set[int]]:
    """What the hunt uses now, and which processes are tagged as its own without being its descendants.

    A worker that is being ended loses its parent before it is gone, so only one that was seen so twice is an orphan.
    """
    nurseries = children(pid)
    below = descendants(pid)
    members = [pid, *below]
    tree = set(members)
    loose = {other for other in tagged(tag_of(pid)) if other not in tree and other not in set(descendants(pid))}
    folders = list((cache_home() / "scratch").glob(f"run-{pid}-*"))
    sizes = [size for folder in folders for size in sizes_below(folder)]
    memory = {member: rss(member) for member in members}
    return {
        "parent_rss": memory[pid] / MIB,
        "nursery_rss": max((memory.get(n, 0) for n in nurseries), default=0) / MIB,
        "nurseries_rss": {str(n): round(memory.get(n, 0) / MIB, 1) for n in nurseries},
        "worker_rss": max((memory[m] for m in below if m not in nurseries), default=0) / MIB,
        "all_pss": sum(pss(member) for member in members) / MIB,
        "parent_pss": pss(pid) / MIB,
        "processes": len(members),
        "parent_fds": descriptors(pid),
        "nursery_fds": max(map(descriptors, nurseries), default=0),
        "parent_threads": threads(pid),
        "scratch_mib": sum(sizes) / MIB,
        "scratch_files": len(sizes),
        "orphans": len(loose & suspected),
        "load": os.getloadavg()[0],
    }, loose  # fmt: skip


def tag_of(pid: int) -> str:
    """How the tags begin of all that a process of Driftline starts: the folder of its run."""
    return f"{cache_home()}/scratch/run-{pid}-"


def rss(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def pss(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def descriptors(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return 0


def threads(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    return 0


def sizes_below(folder: Path) -> Iterator[int]:
    """Sizes of the files in a folder that others write to and delete from."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    yield from sizes_below(Path(entry.path))
                else:
                    yield entry.stat(follow_symlinks=False).st_size


# -- what it comes to --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trend:
    """A straight line through the samples of a quantity."""

    median: float
    slope: float  # an hour
    low: float
    high: float
    hours: float

    @property
    def words(self) -> str:
        if self.low <= 0 <= self.high or abs(self.slope) * 24 < SLACK * max(abs(self.median), 1.0):
            return "flat"
        return "GROWS" if self.slope > 0 else "falls"


def trend(hours: Sequence[float], values: Sequence[float]) -> Trend:
    """Least squares, with 95 % of what resampled blocks of residuals give for the slope."""
    x, y = np.array(hours), np.array(values)
    slope, offset = np.polyfit(x, y, 1)
    residuals = y - (slope * x + offset)
    random = np.random.default_rng(0)
    slopes = []
    count = -(-len(x) // BLOCK)
    for _ in range(RESAMPLES):
        begins = random.integers(0, max(len(x) - BLOCK, 1), count)
        drawn = np.concatenate([residuals[begin : begin + BLOCK] for begin in begins])
        drawn = np.resize(drawn, len(x))
        slopes.append(float(np.polyfit(x, y + drawn - residuals, 1)[0]))
    low, high = np.percentile(slopes, [2.5, 97.5])
    return Trend(float(np.median(y)), float(slope), float(low), float(high), float(x[-1] - x[0]))


def read(path: Path) -> int:
    """Print the table of a file, finished or not."""
    lines = read_lines(path)
    latest = max(at for at, line in enumerate(lines) if line["what"] == "start")
    lines = lines[latest:]
    samples, hunt, begun = [], 0, 0.0
    hunts: dict[int, dict[str, Any]] = {}
    for line in lines:
        if line["what"] == "begin":
            hunt, begun = line["seed"], line["at"]
        elif line["what"] == "end":
            hunts[line["seed"]] = line
        elif line["what"] == "sample" and hunt:
            samples.append({**line, "seed": hunt, "since": line["at"] - begun})
    warm = [s for s in samples if s["since"] >= WARM_UP]
    if len(warm) < 2 * BLOCK:
        print(f"{len(samples)} samples; a line is fitted when there are {2 * BLOCK} after the warm-up.")
        return 0
    seeds = list(dict.fromkeys(s["seed"] for s in samples))
    print("| quantity | " + " | ".join(f"seed {seed}" for seed in seeds) + " | largest | an hour | |")
    print("|---" * (len(seeds) + 4) + "|")
    bad = 0
    for name, words in QUANTITIES.items():
        found = trend([s["at"] / 3600 for s in warm], [s[name] for s in warm])
        medians = [np.median([s[name] for s in warm if s["seed"] == seed] or [np.nan]) for seed in seeds]
        bad += found.words == "GROWS"
        print(
            f"| {words} | {' | '.join(f'{value:.4g}' for value in medians)} | {max(s[name] for s in samples):.4g} |"
            f" {found.slope:+.3g} ({found.low:+.3g} to {found.high:+.3g}) | {found.words} |"
        )
    orphans = sum(s["orphans"] > 0 for s in samples)
    hours = (samples[-1]["at"] - samples[0]["at"]) / 3600
    print(f"\n{hours:.2f} hours, {len(samples)} samples, {len(warm)} after warm-up; orphans in {orphans} of them.")
    for seed, line in hunts.items():
        programs = sum(line["programs"].values())
        print(
            f"seed {seed}: {line['seconds']:.0f} s, {programs:,} programs, {line['judged']:,} judged,"
            f" {line['bugs']} bugs, {len(line['internal'])} internal errors, stopped: {line['stopped'] or 'none'}"
        )
    over = next((line for line in lines if line["what"] == "over"), None)
    if over:
        print(f"Over with exit code {over['code']}; processes left: {over['left']}.")
    return int(bool(bad or orphans or (over and (over["code"] or over["left"]))))


def seconds_of(text: str) -> float:
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hunts", type=int, default=4)
    parser.add_argument("--each", default="30m", help="how long each hunt takes: 90s, 30m, 1h")
    parser.add_argument("--seed", type=int, default=1, help="of the first hunt; those after it count up")
    parser.add_argument("--targets", nargs="*", help="default: every installed compiler")
    parser.add_argument("--stores", type=Path, default=Path("soak"), help="a folder; each hunt has a store in it")
    parser.add_argument("--out", type=Path, default=Path("soak.jsonl"))
    parser.add_argument("--read", type=Path, help="print the table of this file, and do nothing else")
    parser.add_argument("--drive", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        return read(arguments.read)
    arguments.stores.mkdir(parents=True, exist_ok=True)
    return drive(arguments) if arguments.drive else watch(arguments)


if __name__ == "__main__":
    sys.exit(main())
