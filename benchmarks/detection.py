"""What does a hunt find, and how soon? Planted bugs with their sound twins, hunted blind, one after the other.

    python benchmarks/detection.py --minutes 10 --out detection.jsonl        # hours: every plant and every twin
    python benchmarks/detection.py --minutes 3 --only 'relu-*' --only ties-go-up --out detection.jsonl
    python benchmarks/detection.py --read detection.jsonl                    # the table, also while it runs

The plants are in `_detection_plants.py`: copies of eager and of the ONNX evaluator, each wrong in one class of ways. A
hunt knows nothing of them but the name of its target. A line is written when a hunt is over, and what has a line with
the same seed and time is not hunted again: stop and start it as you like. A plant is *found* when a bug of its hunt
names one of its operators; its bugs are its *names*; it is *blamed right* when all of them do. A twin is *silent* when
its hunt reports nothing.
Found within three minutes is read off the time of the first report of the same hunt.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from _detection_plants import PLANTS, Plant

from driftline.core.identity import operators_named_in
from driftline.core.spelling import spelled_alike
from driftline.store import Store
from driftline.store.hunts import HuntLog

PLUGIN = Path(__file__).parent / "_detection_plants.py"
SOON = 180.0  # seconds


@dataclass(frozen=True)
class Hunted:
    """One hunt that is over."""

    target: str  # plant-NAME or twin-NAME
    kind: str
    language: str
    seconds: float
    seed: int
    programs: int
    bugs: tuple[str, ...]  # what their names say is wrong
    right: int  # of them, those that name an operator of the plant
    first: float  # seconds to the first right report; -1: there was none
    unexamined: int  # suspects that nobody looked at
    problems: tuple[str, ...] = ()
    minutes: float = 0.0  # the budget; 0 in lines that an older version wrote

    @property
    def name(self) -> str:
        return self.target.partition("-")[2]

    @property
    def is_twin(self) -> bool:
        return self.target.startswith("twin-")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="for each hunt")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PLANT", help="a name or a pattern; may be repeated"
    )
    parser.add_argument("--no-twins", action="store_true", help="leave the sound twins out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("detection.jsonl"))
    parser.add_argument("--read", type=Path, metavar="FILE", help="show the table of a file, and hunt nothing")
    arguments = parser.parse_args()
    if arguments.read:
        return show(read(arguments.read))
    names = [n for n in PLANTS if not arguments.only or any(fnmatch.fnmatch(n, p) for p in arguments.only)]
    if not names:
        parser.error(f"no plant is called {', '.join(arguments.only)}; known: {', '.join(PLANTS)}")
    done = {(line.target, line.seed, line.minutes) for line in read(arguments.out)}
    for name in names:
        for prefix in ("plant",) if arguments.no_twins else ("plant", "twin"):
            if (f"{prefix}-{name}", arguments.seed, arguments.minutes) in done:
                continue
            line = hunted(f"{prefix}-{name}", PLANTS[name], arguments)
            with arguments.out.open("a") as file:
                file.write(json.dumps(asdict(line)) + "\n")
            print(f"{line.target}: {', '.join(line.bugs) or 'nothing'} ({line.programs} programs)", flush=True)
    return show([line for line in read(arguments.out) if line.name in names and line.minutes == arguments.minutes])


def hunted(target: str, plant: Plant, arguments: argparse.Namespace) -> Hunted:
    """Hunt on one target, as a user would, and read what came of it off the store."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        command = [sys.executable, "-m", "driftline", "hunt", "--plugin", str(PLUGIN), "--targets", target]
        command += ["--budget", f"{arguments.minutes * 60:.0f}s", "--seed", str(arguments.seed)]
        command += ["--jobs", str(arguments.jobs), "--store", str(store), "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True)
        problems = () if done.returncode in (0, 1) else (f"exit {done.returncode}: {done.stderr.strip()[-300:]}",)
        found = _read_store(store, target, plant, arguments.seed, problems)
        return replace(found, minutes=arguments.minutes)


def _read_store(store: Path, target: str, plant: Plant, seed: int, problems: tuple[str, ...]) -> Hunted:
    with Store.open(store) as opened:
        log = HuntLog(opened)
        (hunt,) = log.hunts()
        found = [opened.bug(name) for name in log.sightings(hunt)]
        details = [str(bug.fingerprint.detail) for bug in found]
        right = [names_one_of(detail, plant.blames) for detail in details]
        since = [_seconds(hunt.started, bug.first_seen) for bug, fits in zip(found, right, strict=True) if fits]
        return Hunted(
            target,
            plant.kind,
            plant.language,
            hunt.seconds,
            seed,
            sum(turn.body.programs for turn in log.turns(hunt)),
            tuple(f"{bug.fingerprint.kind}: {bug.fingerprint.detail}" for bug in found),
            sum(right),
            min(since, default=-1.0),
            log.settled(hunt).get("unexamined", 0),
            problems,
        )


def names_one_of(detail: str, operators: Sequence[str]) -> bool:
    """Does the name of a bug hold one of these operators?"""
    return bool(operators_named_in(detail) & spelled_alike(operators))


def _seconds(start: str, end: str) -> float:
    return (datetime.datetime.fromisoformat(end) - datetime.datetime.fromisoformat(start)).total_seconds()


def read(path: Path) -> list[Hunted]:
    if not path.exists():
        return []
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    return [Hunted(**line | {"bugs": tuple(line["bugs"]), "problems": tuple(line["problems"])}) for line in lines]


def show(lines: Sequence[Hunted]) -> int:
    """The table; exits 1 when a twin was accused or a hunt went wrong."""
    plants, twins = [one for one in lines if not one.is_twin], [one for one in lines if one.is_twin]
    found = [one for one in plants if one.right]
    soon = [one for one in found if one.first <= SOON]
    for one in plants:
        when = f"found {one.first:6.0f} s" if one.right else "missed        "
        print(f"{when}  {one.kind:10} {one.name}: {', '.join(one.bugs)}")
    missed = Counter(one.kind for one in plants if not one.right)
    print(f"\nfound: {len(found)} of {len(plants)}; within three minutes: {len(soon)}")
    print(f"missed, by class: {', '.join(f'{kind} {count}' for kind, count in missed.items()) or 'none'}")
    if found:
        print(f"time to the first report: median {statistics.median(one.first for one in found):.0f} s")
        print(f"names for a bug: {statistics.mean(len(one.bugs) for one in found):.2f}")
        print(f"blamed right: {sum(one.right == len(one.bugs) for one in found)} of {len(found)}")
    loud = [one for one in twins if one.bugs]
    print(f"twins silent: {len(twins) - len(loud)} of {len(twins)}")
    print(f"suspects that nobody looked at: {sum(one.unexamined for one in plants)}")
    for one in (*loud, *(one for one in lines if one.problems)):
        print(f"  {one.target}: {', '.join((*one.bugs, *one.problems))}")
    return 1 if loud or any(one.problems for one in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
