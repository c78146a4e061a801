"""How fast `driftline schedules hunt` is, and how small its findings are.

    python benchmarks/schedules.py                                # 30 minutes, on a machine that does nothing else
    python benchmarks/schedules.py --budget 150s --seed 11        # a short look
    python benchmarks/schedules.py --space meta --budget 2m

The store is kept where `--store` says; whose fault each bug is must be read: docs/examples/schedules.md.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
from pathlib import Path

from driftline.core.times import parse_budget
from driftline.execute.pool import Pool
from driftline.schedules.functions import NAMES
from driftline.schedules.hunt import ScheduleHunt, SchedulePlan
from driftline.schedules.recording import trace_of
from driftline.store import Store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="30m")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--space", choices=("random", "meta"), default="random")
    parser.add_argument("--store", type=Path)
    given = parser.parse_args()
    plan = SchedulePlan(NAMES, space=given.space, seconds=parse_budget(given.budget), seed=given.seed)
    with tempfile.TemporaryDirectory() as folder, Store.create(given.store or Path(folder)) as store:
        with Pool() as pool:
            result = ScheduleHunt(pool, store, plan, jobs=given.jobs).run()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)  # of the workers, which have ended by now
        steps = [len(trace_of(store.load_case(store.bug(name).findings[0].case_id)).steps) for name in result.bugs]
    rate = 60 * result.schedules / result.seconds
    processor = (used.ru_utime + used.ru_stime) / max(1, result.schedules)
    print(f"{result.schedules} schedules in {result.seconds:.0f} s: {rate:.0f} a minute; {dict(result.outcomes)}")
    print(f"{processor:.2f} s of a processor for each, reduction included: {120 / processor:.0f} a minute on two cores")
    print(f"{len(result.bugs)} bugs by name, {result.unconfirmed} failures not confirmed")
    if steps:
        print(f"steps: median {statistics.median(steps):g}, at most {max(steps)}")


if __name__ == "__main__":
    main()
