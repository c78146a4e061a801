"""How far `driftline perf` can be trusted: false findings, planted ones that are found, findings that hold.

    python benchmarks/perf.py                                # all of it: hours, on a machine that does nothing else
    python benchmarks/perf.py --only same --programs 10      # eager against itself: every finding is false
    python benchmarks/perf.py --only planted --programs 10   # 50 plants: 1.5 (the limit itself), 1.8, 2 and 5 times too
                                                             # slow, and compile time that grows with the square of
                                                             # the program
    python benchmarks/perf.py --only growth                  # compile time and memory that grow so, and that do not
    python benchmarks/perf.py --only hunt --budget 20m       # a hunt, and every finding of it measured again
    python benchmarks/perf.py --results perf.jsonl --minutes 5   # a piece of it; the same command goes on from there

Programs are those of `driftline perf hunt` under the seed. Every answer is a line of the file of results, and what it
holds is not asked again; the hunt has its store beside it. What is printed at the end counts all lines.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from _lines import append_line, read_lines

import driftline.testing
from driftline.checking.checker import Checker
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.target import Target, parse_targets
from driftline.core.times import parse_budget
from driftline.core.verdict import Kind
from driftline.execute.pool import Pool
from driftline.measure.words import times
from driftline.perf.candidates import candidate, candidate_case
from driftline.perf.check import EAGER, answered
from driftline.perf.comparison import LIMIT, SLOW, TOO_SHORT, UNCONFIRMED, Effort, Side, Stopwatch
from driftline.perf.growth import EXPONENT, Grower, GrowthEffort, sizes_to
from driftline.perf.hunt import NO_PROGRAM, PerfHunt
from driftline.perf.journal import PerfJournal, PerfPlan
from driftline.perf.replay import replay_cost
from driftline.perf.result import PerfRow
from driftline.perf.words import growth_words
from driftline.store import Store

PLUGIN = str(Path(driftline.testing.__file__).with_name("slow.py"))
OPTIONS = CheckOptions(plugins=(PLUGIN,))
FACTORS = ("1.5", "1.8", "2", "5")
QUADRATIC, MISSED = "quadratic", "missed"
GROWTHS = {  # what is made to grow, and how -> the finding
    "compile=quadratic": (str(Kind.SLOW_COMPILE),),
    "compile=linear": (),
    "memory=quadratic": (str(Kind.MEMORY),),
    "memory=linear": (),
}
PLANTED_SIZES = GrowthEffort(sizes_to(80))  # of the square; some programs have many operators in a node
PARTS = ("same", "planted", "growth", "hunt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--programs", type=int, default=200, help="for `same`; a twentieth of it for `planted`")
    parser.add_argument("--budget", default="20m", help="of the hunt")
    parser.add_argument("--targets", default="inductor,onnxruntime,openvino,tvm", help="of the hunt")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, help="answers, one in a line; those it has are not asked again")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin nothing after so many")
    given = parser.parse_args()
    load_plugins((PLUGIN,))
    with tempfile.TemporaryDirectory() as folder, Pool() as pool:
        results = Results(given.results or Path(folder) / "perf.jsonl", time.monotonic() + 60 * given.minutes)
        checker = Checker(pool)
        for part in [given.only] if given.only else PARTS:
            if part == "same":
                same(checker, results, given.seed, given.programs)
            elif part == "planted":
                planted(checker, results, given.seed, given.programs if given.only else given.programs // 20)
            elif part == "growth":
                growth(checker, results, given.seed)
            else:
                hunted(checker, results, given.targets, given.seed, parse_budget(given.budget))


class Results:
    """Answers by what was asked, kept in a file as they come."""

    def __init__(self, path: Path, deadline: float) -> None:
        self.path = path
        self.deadline = deadline
        self._answers: dict[str, str] = {line["question"]: line["answer"] for line in read_lines(path)}

    def ask(self, question: str, work: Callable[[], str]) -> None:
        """Work for the answer, unless it is known or the time is over."""
        if question in self._answers or self.is_over:
            return
        self._answers[question] = answer = work()
        append_line(self.path, {"question": question, "answer": answer})
        print(f"  {question}: {answer}", file=sys.stderr)

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.deadline

    def counts(self, part: str) -> Counter[str]:
        """The answers to all questions of a part, by their first words."""
        found = [answer for question, answer in self._answers.items() if question.startswith(f"{part}: ")]
        return Counter(answer.partition(" (")[0] for answer in found)

    def of(self, part: str) -> list[str]:
        return [answer for question, answer in self._answers.items() if question.startswith(f"{part}: ")]


def numbers(checker: Checker, seed: int, count: int) -> Iterator[tuple[int, Callable[[], Case]]]:
    """So many generated programs, each with its number; what makes them is called when they are asked about."""
    drawn = (number for number in itertools.count() if candidate(seed, number) is not None)
    for number in itertools.islice(drawn, count):
        graph = candidate(seed, number)
        assert graph
        yield number, partial(candidate_case, checker, graph, OPTIONS)


def conclusion(watch: Stopwatch, make: Callable[[], Case], target: str) -> str:
    try:
        case = make()
    except DriftlineError:  # eager itself does not take it
        return NO_PROGRAM
    own, other = Side(case, Target.parse(target), target), Side(case, Target("eager"), EAGER)
    return answer_of(answered(watch, own, other, EAGER, LIMIT), case)


def answer_of(row: PerfRow, case: Case) -> str:
    """The conclusion, and what was measured for it."""
    if not row.measured:
        return f"{row.conclusion} ({case.program.name}: {row.problem})"
    found = row.measured[-1]
    return f"{row.conclusion} ({case.program.name}: {times(found.ratio)}, floor {row.floor or 1.0:.2f}x)"


def same(checker: Checker, results: Results, seed: int, count: int) -> None:
    watch = Stopwatch(checker, Effort())
    for number, make in numbers(checker, seed, count):
        results.ask(f"same: seed {seed}, program {number}", partial(conclusion, watch, make, "eager"))
    said = results.counts("same")
    timed = sum(said.values()) - said[NO_PROGRAM]
    first = said[SLOW] + said[UNCONFIRMED]
    print(f"same: {said[SLOW]} false findings in {timed} programs ({first} before the confirmation); {dict(said)}")


def planted(checker: Checker, results: Results, seed: int, count: int) -> None:
    """Each program with a compiler that is slow by every factor, and with one that takes ever longer to compile."""
    watch = Stopwatch(checker, Effort())
    for number, make in numbers(checker, seed, count):
        for factor in FACTORS:
            target = f"planted-slow:factor={factor}"
            question = f"planted {factor}x: seed {seed}, program {number}"
            results.ask(question, partial(conclusion, watch, make, target))
    for number, make in numbers(checker, seed, count):
        question = f"planted {QUADRATIC}: seed {seed}, program {number}"
        results.ask(question, partial(grown, checker, make, "compile=quadratic", PLANTED_SIZES))
    for plant in (*(f"{factor}x" for factor in FACTORS), QUADRATIC):
        said = results.counts(f"planted {plant}")
        # Of those that are too short, eager itself takes no longer than a call costs.
        judged = sum(said.values()) - said[TOO_SHORT] - said[NO_PROGRAM]
        print(f"planted {plant}: {said[SLOW] + said[Kind.SLOW_COMPILE]} of {judged} found; {dict(said)}")


def grown(checker: Checker, make: Callable[[], Case], plant: str, effort: GrowthEffort) -> str:
    """What is found of a plant, and the exponents."""
    try:
        case = make()
    except DriftlineError:  # eager itself does not take it
        return NO_PROGRAM
    row = Grower(checker, case, effort, EXPONENT, lambda words: None).measure(
        Target.parse(f"planted-slow:factor=1:{plant}")
    )
    if row.problem:
        return f"not measured ({case.program.name}: {row.problem})"
    return f"{', '.join(row.found) or MISSED} ({case.program.name}: {growth_words(row)})"


def growth(checker: Checker, results: Results, seed: int) -> None:
    _, make = next(numbers(checker, seed, 1))
    for plant, finding in GROWTHS.items():
        part = f"growth, {plant}"
        results.ask(f"{part}: seed {seed}", partial(grown, checker, make, plant, GrowthEffort()))
        for answer in results.of(part):
            right = answer.startswith(f"{', '.join(finding) or MISSED} (")
            print(f"{part}: {answer}: {'as it should be' if right else 'WRONG'}")


def hunted(checker: Checker, results: Results, targets: str, seed: int, seconds: float) -> None:
    """In pieces: the store holds how far the hunt is, and each finding is measured again once."""
    place = results.path.with_suffix(f".hunt-{seed}")
    with Store.open(place) if place.exists() else Store.create(place) as store:
        journal = PerfJournal(store)
        if journal.last() == 0:
            journal.begin(PerfPlan(tuple(map(str, parse_targets(targets))), seconds=seconds, seed=seed))
        found = journal.entry(1)
        if not found.finished:
            left = min(seconds, found.seconds + max(0.0, results.deadline - time.monotonic()))
            piece = replace(found, plan=replace(found.plan, seconds=left))
            found = PerfHunt(checker, store, piece, CheckOptions(seed=seed)).run()
            found = replace(found, plan=replace(found.plan, seconds=seconds), finished=found.seconds >= seconds)
            journal.keep(found)
            checker.pool.deadline = math.inf
        print(f"hunt: {found.number} programs in {found.seconds:.0f} s, {dict(found.counts)}")
        for name in found.bugs if found.finished else ():

            def again(name: str = name) -> str:
                said = replay_cost(store, name, checker)
                return f"{said.answer} ({store.bug(name).fingerprint.detail}: {said.reason})"

            results.ask(f"hunt: seed {seed}, {name}", again)
        answers = results.counts("hunt")
        print(f"hunt: {answers['still fails']} of {sum(answers.values())} findings hold; {dict(answers)}")


if __name__ == "__main__":
    main()
