"""What does a hunt find, and how soon? Planted bugs with their sound twins, hunted blind, one after the other.

    python benchmarks/detection.py --minutes 10 --results detection.jsonl    # hours: every plant and every twin
    python benchmarks/detection.py --only 'relu-*' --only ties-go-up --results detection.jsonl
    python benchmarks/detection.py --read detection.jsonl                    # the table, also while it runs
    python benchmarks/detection.py --reach 100                               # minutes: who could find them at all?
    python benchmarks/detection.py --nnsmith folder --minutes 3              # NNSmith in the same time, on the same

The plants are in `_detection_plants.py`: copies of eager and of the ONNX evaluator, each wrong in one class of ways. A
hunt knows nothing of them but the name of its target. It is ended when the plant was reported, `--linger` seconds
later: what is left of its time would be spent on more of the same. A line is written when a hunt is over, and what has
a line with the same seed and time is not hunted again: stop and start it as you like. A plant is *found* when a bug of
its hunt names one of its operators; its bugs are its *names*; it is *blamed right* when all of them do. A twin is asked
for every program that failed on its plant, and hunted for a short time; it is *silent* when none of that fails. What
fails on eager or the ONNX evaluator themselves, of which plants and twins are copies, is neither's, and told apart.
Found within three minutes is read off the time of the first report of the same hunt.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from _detection_nnsmith import beside
from _detection_plants import PLANTS, Plant
from _detection_reach import reach
from _lines import append_line, read_lines

from driftline.checking.kinds import HOME
from driftline.core.errors import DriftlineError
from driftline.core.identity import operators_named_in
from driftline.core.spelling import spelled_alike
from driftline.store import Bug, Store
from driftline.store.hunts import HuntLog

PLUGIN = Path(__file__).parent / "_detection_plants.py"
SOON = 180.0  # seconds
LOOK = 3.0  # seconds between two looks at a hunt that runs
ENDED = (0, 1, 128 + signal.SIGINT)  # nothing found, bugs found, ended by us


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
    load: float = 0.0  # of the machine when it was over: processes that wanted to run, ours among them
    asked: int = 0  # programs that failed on the plant and were run on this twin
    inherited: tuple[str, ...] = ()  # further bugs, of what it is a copy of

    @property
    def name(self) -> str:
        return self.target.partition("-")[2]

    @property
    def is_twin(self) -> bool:
        return self.target.startswith("twin-")


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start what runs in the background without one
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="for each hunt")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PLANT", help="a name or a pattern; may be repeated"
    )
    parser.add_argument("--linger", type=float, default=30.0, help="seconds of hunting after the plant was reported")
    parser.add_argument("--twin-minutes", type=float, default=1.0, help="for the hunt on each twin")
    parser.add_argument("--no-twins", action="store_true", help="leave the sound twins out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path, default=Path("detection.jsonl"))
    parser.add_argument("--read", type=Path, metavar="FILE", help="show the table of a file, and hunt nothing")
    parser.add_argument("--reach", type=int, metavar="N", help="hunt nothing: see `_detection_reach.py`")
    parser.add_argument("--nnsmith", type=Path, metavar="FOLDER", help="hunt nothing: see `_detection_nnsmith.py`")
    arguments = parser.parse_args()
    if arguments.nnsmith:
        return beside(arguments.nnsmith, arguments.minutes, arguments.seed)
    if arguments.reach:
        return reach(arguments.reach, arguments.seed)
    if arguments.read:
        return show(read(arguments.read))
    names = [n for n in PLANTS if not arguments.only or any(fnmatch.fnmatch(n, p) for p in arguments.only)]
    if not names:
        parser.error(f"no plant is called {', '.join(arguments.only)}; known: {', '.join(PLANTS)}")
    done = {(line.target, line.seed, line.minutes) for line in read(arguments.results) if not line.problems}
    for name in names:
        if (f"plant-{name}", arguments.seed, arguments.minutes) in done:
            continue
        for line in hunted(PLANTS[name], arguments):
            append_line(arguments.results, asdict(line))
            when = f" after {line.first:.0f} s" if line.first >= 0 else ""
            print(f"{line.target}: {', '.join(line.bugs) or 'nothing'}{when} ({line.programs} programs)", flush=True)
    return show([line for line in read(arguments.results) if line.name in names and line.minutes == arguments.minutes])


def hunted(plant: Plant, arguments: argparse.Namespace) -> Iterator[Hunted]:
    """Hunt on a plant as a user would, read what came of it off the store, and then ask its twin."""

    def noted(line: Hunted) -> Hunted:
        return replace(line, minutes=arguments.minutes, load=os.getloadavg()[0])

    with tempfile.TemporaryDirectory() as folder:
        store, target = Path(folder) / "store", f"plant-{plant.name}"
        problems = _hunt(store, target, plant, arguments.minutes, arguments)
        copied = _failing_on(HOME[plant.language], store, _names(store))
        yield noted(_read_store(store, target, plant, arguments.seed, problems, copied))
        if not arguments.no_twins:
            beside, twin = Path(folder) / "beside", f"twin-{plant.name}"
            problems = _hunt(beside, twin, plant, arguments.twin_minutes, arguments)
            of_home = _failing_on(HOME[plant.language], beside, _names(beside))
            found = _read_store(beside, twin, plant, arguments.seed, problems, of_home)
            names = _names(store, without=copied)
            failing = [f"{name} of the plant" for name in _failing_on(twin, store, names)]
            yield noted(replace(found, bugs=(*found.bugs, *failing), asked=len(names)))


def _hunt(store: Path, target: str, plant: Plant, minutes: float, arguments: argparse.Namespace) -> tuple[str, ...]:
    """Hunt until the time is over, or the plant was reported; what went wrong with the hunt itself."""
    command = [sys.executable, "-m", "driftline", "hunt", "--plugin", str(PLUGIN), "--targets", target]
    command += ["--budget", f"{minutes * 60:.0f}s", "--seed", str(arguments.seed)]
    command += ["--jobs", str(arguments.jobs), "--store", str(store), "--quiet"]
    with tempfile.TemporaryFile("w+") as said:
        hunt = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        end = float("inf")
        while hunt.poll() is None:
            time.sleep(LOOK)
            if time.monotonic() > end:
                hunt.send_signal(signal.SIGINT)
                hunt.wait()
            elif end == float("inf") and _is_reported(store, plant):
                end = time.monotonic() + arguments.linger
        said.seek(0)
        return () if hunt.returncode in ENDED else (f"exit {hunt.returncode}: {said.read().strip()[-300:]}",)


def _is_reported(store: Path, plant: Plant) -> bool:
    """Does the store of a hunt that runs have a bug that names the plant?"""
    try:
        with Store.open(store) as opened:
            log = HuntLog(opened)
            details = [str(opened.bug(name).fingerprint.detail) for name in log.sightings(None)]
    except DriftlineError:  # it is being made
        return False
    return any(names_one_of(detail, plant.blames) for detail in details)


def _failing_on(target: str, store: Path, names: Iterable[str]) -> set[str]:
    """Which bugs of a store fail on this target too."""
    command = [sys.executable, "-m", "driftline", "replay", "--plugin", str(PLUGIN), "--target", target]
    return {
        name
        for name in names
        if subprocess.run([*command, name, "--store", str(store), "--quiet"], capture_output=True).returncode == 1
    }


def _names(store: Path, without: Collection[str] = ()) -> list[str]:
    """The bugs of a store."""
    with Store.open(store) as opened:
        return [name for name in HuntLog(opened).sightings(None) if name not in without]


def _read_store(
    store: Path, target: str, plant: Plant, seed: int, problems: tuple[str, ...], copied: Collection[str]
) -> Hunted:
    """`copied`: the bugs of what it is a copy of."""
    with Store.open(store) as opened:
        log = HuntLog(opened)
        hunt = next(iter(log.hunts()), None)
        if hunt is None:
            problems = problems or ("its time was over before it began",)
            return Hunted(target, plant.kind, plant.language, 0.0, seed, 0, (), 0, -1.0, 0, problems)
        names = list(log.sightings(hunt))
        found = [opened.bug(name) for name in names if name not in copied]
        inherited = [opened.bug(name) for name in names if name in copied]
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
            tuple(map(_named, found)),
            sum(right),
            min(since, default=-1.0),
            sum(count for state, count in log.settled(hunt).items() if state in ("unexamined", "waiting")),
            problems,
            inherited=tuple(map(_named, inherited)),
        )


def _named(bug: Bug) -> str:
    return f"{bug.fingerprint.kind}: {bug.fingerprint.detail}"


def names_one_of(detail: str, operators: Sequence[str]) -> bool:
    """Does the name of a bug hold one of these operators?"""
    return bool(operators_named_in(detail) & spelled_alike(operators))


def _seconds(start: str, end: str) -> float:
    return (datetime.datetime.fromisoformat(end) - datetime.datetime.fromisoformat(start)).total_seconds()


def read(path: Path) -> list[Hunted]:
    lines = read_lines(path)
    lists = ("bugs", "problems", "inherited")
    made = [Hunted(**line | {name: tuple(line.get(name, ())) for name in lists}) for line in lines]
    return list({(one.target, one.seed, one.minutes): one for one in made}.values())  # the last try of each


def show(lines: Sequence[Hunted]) -> int:
    """The table; exits 1 when a twin was accused or a hunt went wrong."""
    plants = [one for one in lines if not one.is_twin]
    twins = [one for one in lines if one.is_twin and (one.programs or one.asked)]
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
    copied = Counter(name for one in lines for name in one.inherited)
    print(
        f"bugs of what they are copies of: {', '.join(f'{name} ({count})' for name, count in copied.items()) or 'none'}"
    )
    print(f"suspects that nobody looked at: {sum(one.unexamined for one in plants)}")
    for one in (*loud, *(one for one in lines if one.problems)):
        print(f"  {one.target}: {', '.join((*one.bugs, *one.problems))}")
    return 1 if loud or any(one.problems for one in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
