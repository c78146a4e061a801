"""How far `driftline perf` can be trusted: false findings, planted ones that are found, findings that hold.

    python benchmarks/perf.py                                # all of it: hours, on a machine that does nothing else
    python benchmarks/perf.py --only same --programs 10      # eager against itself: every finding is false
    python benchmarks/perf.py --only planted --programs 5    # a compiler that is 1.5, 2 and 5 times too slow
    python benchmarks/perf.py --only growth                  # compile time that grows with the square, or does not
    python benchmarks/perf.py --only hunt --budget 20m       # a hunt, and every finding of it measured again

Programs are those of `driftline perf hunt` under the seed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import driftline.testing
from driftline.checking.checker import Checker
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.target import Target, parse_targets
from driftline.core.times import parse_budget
from driftline.execute.pool import Pool
from driftline.perf.candidates import candidate, candidate_case
from driftline.perf.check import EAGER, answered
from driftline.perf.comparison import LIMIT, SLOW, TOO_SHORT, UNCONFIRMED, Effort, Side, Stopwatch
from driftline.perf.growth import EXPONENT, Grower, GrowthEffort
from driftline.perf.hunt import PerfHunt
from driftline.perf.journal import PerfJournal, PerfPlan
from driftline.perf.replay import replay_cost
from driftline.perf.words import growth_words
from driftline.store import Store

PLUGIN = str(Path(driftline.testing.__file__).with_name("slow.py"))
OPTIONS = CheckOptions(plugins=(PLUGIN,))
FACTORS = ("1.5", "2", "5")
GROWTHS = {"quadratic": True, "linear": False}  # how compile time is made to grow -> is that a finding?
PARTS = ("same", "planted", "growth", "hunt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--programs", type=int, default=200, help="for `same`; a quarter of it for `planted`")
    parser.add_argument("--budget", default="20m", help="of the hunt")
    parser.add_argument("--targets", default="inductor,onnxruntime,openvino,tvm", help="of the hunt")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    load_plugins((PLUGIN,))
    with Pool() as pool:
        checker = Checker(pool)
        for part in [given.only] if given.only else PARTS:
            if part == "same":
                same(checker, given.seed, given.programs)
            elif part == "planted":
                few = given.programs if given.only else given.programs // 4
                planted(checker, given.seed, few)
            elif part == "growth":
                growth(checker, given.seed)
            else:
                hunted(checker, given.targets, given.seed, parse_budget(given.budget))


def cases(checker: Checker, seed: int, count: int) -> Iterator[Case]:
    """So many generated programs that eager takes."""
    made = number = 0
    while made < count:
        graph = candidate(seed, number)
        number += 1
        try:
            case = candidate_case(checker, graph, OPTIONS) if graph else None
        except DriftlineError:
            continue
        if case:
            made += 1
            yield case


def conclusion(watch: Stopwatch, case: Case, target: str) -> str:
    own, other = Side(case, Target.parse(target), target), Side(case, Target("eager"), EAGER)
    row = answered(watch, own, other, EAGER, LIMIT)
    print(f"  {case.program.name}: {row.conclusion} {row.problem}", file=sys.stderr)
    return row.conclusion


def same(checker: Checker, seed: int, count: int) -> None:
    watch = Stopwatch(checker, Effort())
    said = Counter(conclusion(watch, case, "eager") for case in cases(checker, seed, count))
    first = said[SLOW] + said[UNCONFIRMED]
    print(f"same: {said[SLOW]} false findings in {count} programs ({first} before the confirmation); {dict(said)}")


def planted(checker: Checker, seed: int, count: int) -> None:
    watch = Stopwatch(checker, Effort())
    programs = list(cases(checker, seed, count))
    for factor in FACTORS:
        said = Counter(conclusion(watch, case, f"planted-slow:factor={factor}") for case in programs)
        judged = count - said[TOO_SHORT]  # of those, eager itself takes no longer than a call costs
        print(f"planted {factor}x: {said[SLOW]} of {judged} found; {dict(said)}")


def growth(checker: Checker, seed: int) -> None:
    (case,) = cases(checker, seed, 1)
    for grown, finding in GROWTHS.items():
        grower = Grower(checker, case, GrowthEffort(), EXPONENT, lambda words: None)
        row = grower.measure(Target.parse(f"planted-slow:factor=1:compile={grown}"))
        right = "as it should be" if bool(row.found) == finding else "WRONG"
        print(f"growth, {grown}: {growth_words(row)} ({right})")


def hunted(checker: Checker, targets: str, seed: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder, Store.create(Path(folder)) as store:
        plan = PerfPlan(tuple(map(str, parse_targets(targets))), seconds=seconds, seed=seed)
        found = PerfHunt(checker, store, PerfJournal(store).begin(plan), CheckOptions(seed=seed)).run()
        checker.pool.deadline = float("inf")
        print(f"hunt: {found.number} programs in {found.seconds:.0f} s, {dict(found.counts)}")
        answers = Counter()
        for name in found.bugs:
            again = replay_cost(store, name, checker)
            answers[str(again.answer)] += 1
            print(f"  {name} {store.bug(name).fingerprint.detail}: {again.answer} ({again.reason})")
        print(f"hunt: {answers['still fails']} of {len(found.bugs)} findings hold; {dict(answers)}")


if __name__ == "__main__":
    main()
