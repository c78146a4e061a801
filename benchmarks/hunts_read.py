"""What do the bugs of hunts come to, when a person reads them? The second half of `benchmarks/causes.py`.

    python benchmarks/hunts_read.py soak/7001 soak/7002
    python benchmarks/hunts_read.py                    # the reading alone, without the stores
    python benchmarks/hunts_read.py soak/7001 --replay # do all sightings of a bug behave alike?

`hunts_read.json` is written by hand: for the seed of each hunt, every bug with its causes as experiments showed them,
and last whose fault it is (compiler, debatable, ours). A cause goes by the name of its file where it has one. A store
is held against it: each of its bugs must have been read, and what the library says of a bug must be what the reader
found. Exits 1 if a bug is unread, is ours, or has two causes, or if the library says something else.

With `--replay`, every sighting of the bugs that were seen more than three times is examined again and put to the same
experiments (`_sightings.py`). Exits 1 if some of one name behave differently: those hold two causes, unless a reader
finds why.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

from _sightings import OFTEN, replay, table

from driftline.report.annotated import causes_of
from driftline.store import Store
from driftline.store.hunts import HuntLog

READ = Path(__file__).with_name("hunts_read.json")
WHOSE = ("compiler", "debatable", "ours")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", type=Path, nargs="*", help="one for each hunt")
    parser.add_argument("--replay", action="store_true", help="examine each sighting of what was seen often again")
    parser.add_argument(
        "--often", type=int, default=OFTEN, metavar="N", help="with --replay: seen more often than this"
    )
    parser.add_argument("--most", type=int, default=0, metavar="N", help="with --replay: sightings of each bug")
    parser.add_argument("--only", default="", metavar="TEXT", help="with --replay: bugs whose names have this in them")
    parser.add_argument("--out", type=Path, metavar="FILE", help="with --replay: rows as JSON lines, to go on from")
    arguments = parser.parse_args()
    if arguments.replay:
        given = (arguments.often, arguments.most, arguments.only, arguments.out)
        told, differing = table(replay(arguments.stores, *given))
        print(told)
        print(f"\nSightings behave differently: {', '.join(differing) or 'in no bug'}.")
        return int(bool(differing))
    readings: dict[str, dict[str, list[str]]] = json.loads(READ.read_text())
    bad = False
    print("| seed | bugs | causes | compiler | debatable | ours | names with two causes | causes with several names |")
    print("|---|---|---|---|---|---|---|---|")
    for seed, reading in readings.items():
        names = defaultdict(set)
        for bug, (*causes, whose) in reading.items():
            assert whose in WHOSE, f"{bug}: {whose}"
            for cause in causes:
                names[cause].add(bug)
        mixed = [bug for bug, (*causes, _) in reading.items() if len(causes) > 1]
        count = {whose: sum(said[-1] == whose for said in reading.values()) for whose in WHOSE}
        several = sum(len(bugs) > 1 for bugs in names.values())
        bad |= bool(mixed or count["ours"])
        print(
            f"| {seed} | {len(reading)} | {len(names)} | {' | '.join(str(count[whose]) for whose in WHOSE)} |"
            f" {len(mixed)} | {several} |"
        )
    for path in arguments.stores:
        bad |= not agrees(path, readings)
    return int(bad)


def agrees(path: Path, readings: dict[str, dict[str, list[str]]]) -> bool:
    """Is every bug of a store read, and does the library say nothing else of it? Prints what it finds."""
    with Store.open(path) as store:
        log = HuntLog(store)
        (hunt,) = log.hunts()
        reading = readings.get(str(hunt.plan["seed"]), {})
        sightings = log.sightings(hunt)
        bugs = [store.bug(name) for name in sightings]
    unread = [bug.id for bug in bugs if bug.id not in reading]
    explained = {bug.id: {cause.id for cause in causes_of(bug)} for bug in bugs}
    wrong = [name for name, found in explained.items() if name in reading and found - set(reading[name])]
    print(
        f"\n{path}: {len(bugs)} bugs, {sum(n > 3 for n in sightings.values())} of them seen more than three times;"
        f" the library explains {sum(map(bool, explained.values()))}"
    )
    for words, found in (("not read", unread), ("explained otherwise by the library", wrong)):
        if found:
            print(f"  {words}: {', '.join(found)}")
    return not unread and not wrong


if __name__ == "__main__":
    sys.exit(main())
