"""Which searches find inputs that break numerics? The portfolio, its steps alone, and others, on the same queries.

    python benchmarks/inputs.py                       # all dtypes and methods, 5 s for a query: more than an hour
    python benchmarks/inputs.py --methods portfolio   # about ten minutes
    python benchmarks/inputs.py --dtypes float16 --only 'pole*' --json result.json

A method decides a query by a witness, which is run again before it counts, or by a proof. Time is that of the
processor, so that other work on the machine does not count; z3 and cvc5, whose own limits are by the clock, run in a
process with such a limit. CMA-ES, z3 and cvc5 are used where the packages `cma`, `z3-solver` and `cvc5` are installed,
and named where they are not.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import json
import math
import os
import resource
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from inputs_queries import HARD, KINDS

from driftline.inputs.symbolic.answers import UNKNOWN, SolverAnswer, SolverOutcome, confirms, witness
from driftline.inputs.symbolic.distance import distances
from driftline.inputs.symbolic.exact import refine
from driftline.inputs.symbolic.formats import FORMATS
from driftline.inputs.symbolic.goals import GoalKind, Query
from driftline.inputs.symbolic.portfolio import STEPS, solve
from driftline.inputs.symbolic.smt import Encoding, UnsupportedQuery

Method = Callable[[Query, float], SolverAnswer]
ROWS = 4096
AWHILE = 10  # times as long, by the clock, may a solver take on a busy machine


def now() -> float:
    """Processor seconds of this process and of those that it started."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@dataclass(frozen=True)
class Result:
    query: str
    hard: bool
    dtype: str
    method: str
    outcome: str
    step: str
    seconds: float


def sampled(draw: Callable[[Query, np.random.Generator], np.ndarray]) -> Method:
    def search(query: Query, seconds: float) -> SolverAnswer:
        rng, until = np.random.default_rng(0), now() + seconds
        while now() < until:
            if answer := witness(query, "", draw(query, rng)):
                return answer
        return UNKNOWN

    return search


def uniform(query: Query, rng: np.random.Generator) -> np.ndarray:
    """Evenly in the ranges; normal numbers of several sizes where there are none."""
    low, high = query.bounds
    columns = []
    for at, node in enumerate(query.variables):
        if node.name in query.ranges:
            drawn = rng.uniform(*query.ranges[node.name], ROWS)
        else:
            drawn = rng.normal(size=ROWS) * rng.choice([1.0, 10.0, 100.0], ROWS)
        columns.append(np.clip(node.format.ordinal_of(node.format.round(drawn)), low[at], high[at]))
    return np.stack(columns, 1)


def bits(query: Query, rng: np.random.Generator) -> np.ndarray:
    low, high = query.bounds
    return rng.integers(low, high, (ROWS, len(low)), endpoint=True)


def cma_es(query: Query, seconds: float) -> SolverAnswer:
    import cma

    low, high = (bound.astype(np.float64) for bound in query.bounds)
    until, starts = now() + seconds, 0
    while now() < until:
        starts += 1
        rng = np.random.default_rng(starts)
        options = {"bounds": [0, 1], "verbose": -9, "popsize": 32, "seed": starts, "maxiter": 60}
        dims = max(len(low), 2)  # it does not work in one dimension
        search = cma.CMAEvolutionStrategy(rng.uniform(0, 1, dims), 0.25, options)
        while not search.stop() and now() < until:
            asked = np.array(search.ask())
            places = (low + asked[:, : len(low)] * (high - low)).astype(np.int64)
            places = np.clip(places, *query.bounds)
            if answer := witness(query, "", places):
                return answer
            search.tell(list(asked), list(distances(query, places)))
    return UNKNOWN


def gradient(query: Query, seconds: float) -> SolverAnswer:
    """Descent on the distance along its slope in the numbers themselves, by differences, from random starts."""
    rng, until = np.random.default_rng(0), now() + seconds
    forms = [node.format for node in query.variables]
    low, high = query.bounds
    while now() < until:
        here = uniform(query, rng)[:64]
        for _ in range(100):
            if answer := witness(query, "", here):
                return answer
            if now() >= until:
                return UNKNOWN
            values = np.stack([form.value_of(here[:, at]) for at, form in enumerate(forms)], 1).astype(np.float64)
            base, slopes = distances(query, here), []
            step = np.abs(values) * 1e-3 + 1e-3
            for at, form in enumerate(forms):
                moved = here.copy()
                ahead = np.clip(values[:, at] + step[:, at], -form.largest, form.largest)
                moved[:, at] = form.ordinal_of(form.round(ahead))
                slopes.append(distances(query, np.clip(moved, low, high)) - base)
            values = values - np.sign(np.stack(slopes, 1)) * step * rng.choice([1.0, 10.0, 100.0], (64, 1))
            for at, form in enumerate(forms):
                here[:, at] = form.ordinal_of(form.round(np.clip(values[:, at], -form.largest, form.largest)))
            here = np.clip(here, low, high)
    return UNKNOWN


Ask = Callable[[Encoding, float], tuple[str, dict[str, int]]]  # of a solver, within so many seconds


def _smt(ask: Ask) -> Method:
    """The same encoding and refinement as for Bitwuzla."""

    def search(query: Query, seconds: float) -> SolverAnswer:
        if query.goal.kind is GoalKind.ERROR:
            return UNKNOWN
        until = now() + seconds
        try:
            encoding = Encoding(query)
        except UnsupportedQuery:
            return UNKNOWN
        while now() < until:
            status, patterns = ask(encoding, until - now())
            if status == "unsat":
                return SolverAnswer(SolverOutcome.PROOF if encoding.proves else SolverOutcome.UNKNOWN)
            if status != "sat":
                return UNKNOWN
            numbers = {n.name: n.format.of_bits(patterns.get(encoding.bits(n), 0)) for n in query.variables}
            if confirms(query, numbers):
                return SolverAnswer(SolverOutcome.WITNESS, "", numbers)
            if not refine(encoding, numbers):
                return UNKNOWN
        return UNKNOWN

    return search


def _in_a_process(ask: Ask) -> Ask:
    """With a limit on the processor's time, which is in whole seconds."""

    def limited(encoding: Encoding, seconds: float) -> tuple[str, dict[str, int]]:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            most = math.ceil(seconds) + math.ceil(time.process_time())
            resource.setrlimit(resource.RLIMIT_CPU, (most, most))
            try:
                os.write(writer, json.dumps(ask(encoding, seconds * AWHILE)).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            said = answer.read()
        os.waitpid(pid, 0)
        status, patterns = json.loads(said) if said else ("unknown", {})
        return status, patterns

    return limited


def _ask_z3(encoding: Encoding, seconds: float) -> tuple[str, dict[str, int]]:
    import z3

    context = z3.Context()
    solver = z3.SolverFor("QF_BVFP", ctx=context)
    solver.set("timeout", max(1, int(seconds * 1000)))
    solver.from_string(encoding.text())
    result = solver.check()
    if result == z3.sat:
        model = solver.model()
        found = {one.name(): model[one] for one in model.decls()}
        wanted = (encoding.bits(node) for node in encoding.query.variables)
        return "sat", {name: found[name].as_long() for name in wanted if name in found}
    return ("unsat" if result == z3.unsat else "unknown"), {}


def _ask_cvc5(encoding: Encoding, seconds: float) -> tuple[str, dict[str, int]]:
    import cvc5

    solver = cvc5.Solver()
    for name, value in (
        ("produce-models", "true"),
        ("tlimit-per", str(max(1, int(seconds * 1000)))),
        ("fp-exp", "true"),
    ):
        solver.setOption(name, value)
    symbols = cvc5.SymbolManager(solver.getTermManager())
    parser = cvc5.InputParser(solver, symbols)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, encoding.text(), "query")
    while not (command := parser.nextCommand()).isNull():
        command.invoke(solver, symbols)
    result = solver.checkSat()
    if result.isSat():
        declared = {term.getSymbol(): term for term in symbols.getDeclaredTerms()}
        wanted = (encoding.bits(node) for node in encoding.query.variables)
        return "sat", {name: int(solver.getValue(declared[name]).getBitVectorValue(10)) for name in wanted}
    return ("unsat" if result.isUnsat() else "unknown"), {}


def step(name: str) -> Method:
    return lambda query, seconds: solve(query, seconds, steps=(name,), now=now)


METHODS: dict[str, Method] = {
    "portfolio": lambda query, seconds: solve(query, seconds, now=now),
    **{name: step(name) for name in STEPS},
    "uniform": sampled(uniform),
    "random bits": sampled(bits),
    "cma-es": cma_es,
    "gradient": gradient,
    "z3": _smt(_in_a_process(_ask_z3)),
    "cvc5": _smt(_in_a_process(_ask_cvc5)),
}
NEEDS = {"cma-es": "cma", "z3": "z3", "cvc5": "cvc5", "bitwuzla": "bitwuzla"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default="float32,float16,bfloat16")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--only", default="*", help="a pattern of names of queries")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds for one query")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    methods = [name for name in options.methods.split(",") if _there(name)]
    results: list[Result] = []
    for dtype in options.dtypes.split(","):
        for kind in KINDS:
            query = kind.query(FORMATS[dtype]) if fnmatch.fnmatch(kind.name, options.only) else None
            if query is None:
                continue
            for name in methods:
                began = now()
                answer = METHODS[name](query, options.limit)
                spent = now() - began
                if answer.outcome is SolverOutcome.WITNESS:
                    assert confirms(query, answer.numbers), (kind.name, dtype, name)
                results.append(Result(kind.name, kind in HARD, dtype, name, str(answer.outcome), answer.step, spent))
                print(f"{dtype:9} {kind.name:34} {name:17} {answer.outcome:8} {answer.step:17} {spent:.3f}", flush=True)
        show(results, dtype)
        if options.json:
            options.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    contradictions(results)


def _there(name: str) -> bool:
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        print(f"{name}: skipped, {NEEDS[name]} is not installed", flush=True)
        return False
    return True


def show(results: list[Result], dtype: str) -> None:
    """One row for each method: decided, by what, of the hard ones, and seconds of all queries."""
    rows = defaultdict(list)
    for result in results:
        if result.dtype == dtype:
            rows[result.method].append(result)
    print(f"\n{dtype}: {len(next(iter(rows.values()), []))} queries")
    print(f"{'method':18} decided  witness  proof  hard     median s  nine in ten")
    for name, found in rows.items():
        count = {kind: sum(one.outcome == kind for one in found) for kind in ("witness", "proof")}
        hard = [one for one in found if one.hard]
        decided = sum(one.outcome != "unknown" for one in hard)
        times = sorted(one.seconds for one in found)
        print(
            f"{name:18} {sum(count.values()):7}  {count['witness']:7}  {count['proof']:5}  {decided:2} of {len(hard):2}"
            f"  {statistics.median(times):8.3f}  {times[int(0.9 * (len(times) - 1))]:11.3f}",
            flush=True,
        )
    undecided = [one.query for one in rows.get("portfolio", []) if one.outcome == "unknown"]
    print(f"undecided by the portfolio: {', '.join(undecided) or 'none'}", flush=True)


def contradictions(results: list[Result]) -> None:
    """A witness of one method and a proof of another cannot both be right."""
    seen = defaultdict(set)
    for one in results:
        seen[one.query, one.dtype].add(one.outcome)
    wrong = [key for key, outcomes in seen.items() if {"witness", "proof"} <= outcomes]
    print(f"\ncontradictions: {wrong or 'none'}")


if __name__ == "__main__":
    main()
