"""What does a hunt cost, and what is it worth? Programs made, judged and kept, with NNSmith beside us in the same run.

    python benchmarks/hunt.py                               # about an hour
    python benchmarks/hunt.py --quick                       # about twelve minutes, numbers that wobble
    python benchmarks/hunt.py --only generation,peer --json result.json
    python benchmarks/hunt.py --only worth --store .driftline

- starts: seconds of a processor to import what each compiler needs (`Backend.start_seconds`);
- first: how long a hunt on all compilers takes, from cold, to its first judged program, to its first bug, and to the
  first judged program of each compiler;
- generation: programs of ten operators made in a second of one core, and how many of them run;
- judged: programs with a verdict (pass, fail, inconclusive) a minute, in real hunts and by screening alone, which does
  not examine what fails (`hunt_rates.py`); how long a hunt takes, from cold, to its first one and to its first bug;
- flatness: the cost of a program and the memory of the parent process, at both ends of a long hunt;
- peer: NNSmith's generator and fuzzer, in an environment that is made for it on first use (--no-peer: leave it out);
- worth: reports, distinct bugs, and how many of them are known or debatable, in a store.

Programs differ from run to run (--seed repeats them): what TorchInductor has compiled once it finds in its cache.
Generation is measured in processor time; rates by the clock are, on a busy machine, less than they could be: the load
is printed, and the processor time for each program, which depends less on the neighbours.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import _nnsmith
import psutil
from hunt_rates import hunted, learn, make_lane, screened, take_turn

from driftline.backends import BACKENDS
from driftline.campaign.hunt.lane import Lane
from driftline.campaign.hunt.plan import choose_lanes, form_of
from driftline.checking.batch import Screening
from driftline.checking.batch_requests import InvalidProgram, ProgramRequest
from driftline.checking.kinds import worker_for_framework, worker_for_target
from driftline.execute.pool import Pool, WorkerKind
from driftline.generate import GENERATORS, usual_generators
from driftline.generate.base import GeneratorRequest, NoProgram
from driftline.generate.blueprint import emit
from driftline.generate.graph import Graph
from driftline.generate.random_graph import random_graph
from driftline.report.annotated import causes_of
from driftline.store import Store
from driftline.store.hunts import HuntLog

SECTIONS = ("starts", "first", "generation", "judged", "flatness", "peer", "worth")
LENGTH = 10
VALID = 99.0  # percent
AIMS = {"onnxruntime": 4500.0, "inductor": 120.0}  # judged programs a minute


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 5
    round_seconds: float = 4.0  # of generation
    validity: int = 2000  # programs in each form
    hunts: Mapping[str, int] = field(default_factory=lambda: {"onnxruntime": 180, "inductor": 180, "": 600})
    screening: Mapping[str, int] = field(default_factory=lambda: {"onnxruntime": 60, "inductor": 120})
    flatness: int = 600
    first: int = 140
    peer: int = 180
    peer_judged: int = 50  # reports of each process of NNSmith given to our oracle


QUICK = Sizes(
    rounds=2,
    round_seconds=1.5,
    validity=400,
    hunts={"onnxruntime": 30, "inductor": 90, "": 60},
    screening={"onnxruntime": 15, "inductor": 60},
    flatness=60,
    peer=20,
    peer_judged=10,
)


@dataclass(frozen=True)
class Line:
    """A row of the closing table."""

    what: str
    value: str
    aim: str = ""
    met: bool | None = None


@dataclass
class Run:
    """One run of this script."""

    sizes: Sizes
    seed: int
    scratch: Path
    store: Path | None
    lines: list[Line] = field(default_factory=list)
    answer: dict[str, Any] = field(default_factory=dict)

    def add(self, what: str, value: str, aim: str = "", met: bool | None = None) -> None:
        self.lines.append(Line(what, value, aim, met))
        print(f"  {what}: {value}" + (f" (aim {aim}: {'met' if met else 'MISSED'})" if aim else ""), flush=True)


# -- generation --------------------------------------------------------------------------------------------------------


def graphs(form: str, seed: int) -> Iterator[Graph]:
    """Graphs of ten operators, about each operator in turn."""
    arms = GENERATORS.get("graph").arms(form)
    for number in range(sys.maxsize):
        with contextlib.suppress(NoProgram):
            yield random_graph(GeneratorRequest(form, arms[number % len(arms)], number, seed), LENGTH)


@dataclass
class Made:
    programs: int = 0
    operators: int = 0
    graph: float = 0.0  # seconds of processor time without writing the programs down
    whole: float = 0.0  # and with it


def make_programs(source: Iterator[Graph], form: str, seconds: float) -> Made:
    made = Made()
    while made.whole < seconds:
        started = time.process_time()
        graph = next(source)
        drawn = time.process_time()
        emit(graph, form)
        made.graph += drawn - started
        made.whole += time.process_time() - started
        made.programs += 1
        made.operators += len(graph.nodes)
    return made


def generation(run: Run) -> None:
    for form in ("torch", "onnx"):
        source = graphs(form, run.seed)
        make_programs(source, form, 0.5)  # imports
        rounds = [make_programs(source, form, run.sizes.round_seconds) for _ in range(run.sizes.rounds)]
        rate = statistics.median(r.programs / r.whole for r in rounds)
        bare = statistics.median(r.programs / r.graph for r in rounds)
        operators = sum(r.operators for r in rounds) / sum(r.programs for r in rounds)
        run.add(
            f"{form} programs made, one core",
            f"{rate:.0f}/s written down, {bare:.0f}/s as graphs ({operators:.1f} operators)",
        )
        share, invalid = validity(form, run)
        told = "torch eager" if form == "torch" else "the ONNX reference evaluator"
        run.add(
            f"programs of {LENGTH} operators that run in {told}", f"{share:.2f} %", f">= {VALID:.0f} %", share >= VALID
        )
        for reason, count in invalid.most_common(5):
            print(f"    {count} x {reason}")
        run.answer[f"generation {form}"] = {
            "per_second": rate, "graphs_per_second": bare, "operators": operators, "valid": share, "invalid": invalid
        }  # fmt: skip


def validity(form: str, run: Run, batch: int = 100) -> tuple[float, Counter[str]]:
    """Which share of the programs runs, on one ordinary and one special input, in a worker of its framework?"""
    source = graphs(form, run.seed + 1)
    invalid: Counter[str] = Counter()
    with Pool() as pool:
        for first in range(0, run.sizes.validity, batch):
            requests = [
                ProgramRequest(
                    "part",
                    "",
                    first + number,
                    ("random", "specials"),
                    seed=f"{run.seed}/{first + number}",
                    graph=next(source),
                )
                for number in range(batch)
            ]
            with Screening(pool, form) as screening:
                answers = screening.prepare(requests)
            invalid.update(answer.reason for answer in answers if isinstance(answer, InvalidProgram))
    return 100 - 100 * sum(invalid.values()) / run.sizes.validity, invalid


# -- the first minute --------------------------------------------------------------------------------------------------


def starts(run: Run) -> None:
    kinds: dict[WorkerKind, None] = {}
    for target in choose_lanes(None)[0]:
        backend = BACKENDS.get(target.backend)
        kinds[worker_for_framework(form_of(backend) or "", ())] = None
        kinds[worker_for_target(backend, target, ())] = None
    with Pool() as pool:
        for kind in kinds:
            before = {process.pid for process in psutil.Process().children(recursive=True)}
            pool.warm(kind)
            new = [p for p in psutil.Process().children(recursive=True) if p.pid not in before]
            seconds = sum(sum(p.cpu_times()[:2]) for p in new)
            run.add(f"to import {kind.name}", f"{seconds:.1f} s of a processor")
            run.answer[f"start {kind.name}"] = seconds


def first(run: Run) -> None:
    targets = [str(one) for one in choose_lanes(None)[0]]
    with Pool() as pool:
        seconds, place = run.sizes.first, run.scratch / "store-first"
        result = hunted(targets, seconds, place, run.seed + 400, pool, generators=usual_generators())
    label = f"all {len(targets)} CPU compilers, from the start to the first"
    run.add(f"{label} judged program", _after(result.first_judged, result.used_judged))
    run.add(f"{label} bug", _after(result.first_bug, result.used_bug))
    for name, after in sorted(result.first_of.items(), key=lambda item: item[1]):
        print(f"    {name}: first judged after {after:.1f} s")
    run.answer["first"] = {**result.to_json(), "first_of": result.first_of}


# -- judged programs ---------------------------------------------------------------------------------------------------


def screening(run: Run, target: str, aim: float | None) -> None:
    """Warm workers and no triage: first operators alone, then the longer programs on one lane and on two."""
    seconds = run.sizes.screening[target]
    with Pool() as pool:
        lane = make_lane(target, run.seed + 50)
        rates = {"operators alone, 1 lane": learn(lane, pool, seconds)}
        rates["longer programs, 1 lane"] = screened(lane, pool, seconds, 1)
        rates["longer programs, 2 lanes"] = screened(lane, pool, seconds, 2)
    for name, rate in rates.items():
        counts = rate.counts
        operators = counts.pop("operators") / max(1, sum(counts.values()))
        run.add(
            f"{target}, screening alone, {name}, judged a minute",
            f"{rate.per_minute:.0f} ({rate.cost:.0f} ms of processor time each; {operators:.1f} operators;"
            f" {counts['rejected']} rejected, {counts['invalid']} invalid)",
            *((f">= {aim:.0f}", rate.per_minute >= aim) if aim and "2" in name else ()),
        )
        run.answer[f"screening {target}, {name}"] = {**vars(rate), "operators": operators}


def judged(run: Run) -> None:
    for target, seconds in run.sizes.hunts.items():
        targets = [target] if target else [str(one) for one in choose_lanes(None)[0]]
        label = target or f"all {len(targets)} CPU compilers"
        aim = AIMS.get(target)
        if target in run.sizes.screening:
            screening(run, target, aim)
        folder = run.scratch / f"store-{target or 'all'}"
        if not target and run.store is None:
            run.store = folder
        with Pool() as pool:
            result = hunted(targets, seconds, folder, run.seed + 100, pool)
        share = 100 * result.screening / (result.seconds * 2)  # with two jobs
        run.add(
            f"{label}, hunt of {seconds} s, judged a minute",
            f"{result.per_minute:.0f} ({result.cost:.0f} ms of processor time each; {result.apart};"
            f" {share:.0f} % of the time is screening; {result.bugs} bugs)",
            *((f">= {aim:.0f}", result.per_minute >= aim) if aim else ()),
        )
        run.add(f"{label}, from the start to the first judged program", _after(result.first_judged))
        run.add(f"{label}, from the start to the first bug", _after(result.first_bug))
        if len(targets) > 1:
            for name, counts in sorted(result.by_target.items()):
                told = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
                print(f"    {name}: {told}")
        for problem in result.problems:
            print(f"    {problem}")
        run.answer[f"hunt {label}"] = result.to_json()


def _after(seconds: float | None, used: float | None = None) -> str:
    told = f" ({used:.1f} s of processor time)" if used is not None else ""
    return "there was none" if seconds is None else f"{seconds:.1f} s{told}"


# -- flatness ----------------------------------------------------------------------------------------------------------


def flatness(run: Run) -> None:
    """One long hunt. What it does changes while it learns, so the same programs are also run before and after it."""
    probe = make_lane("onnxruntime", run.seed + 999)
    with Pool() as pool:
        take_turn(same_lane(probe), pool, 2)
        before = timed_probe(probe, pool)
        result = hunted(["onnxruntime"], run.sizes.flatness, run.scratch / "store-flatness", run.seed + 200, pool)
        after = timed_probe(probe, pool)
    with Store.open(run.scratch / "store-flatness") as store:
        log = HuntLog(store)
        (hunt,) = log.hunts()
        uses = [sum(sum(seen.values()) for seen in turn.body.coverage.values()) for turn in log.turns(hunt)]
    tenth = max(1, len(result.turns) // 10)
    ends = result.turns[:tenth], result.turns[-tenth:]
    lengths = [
        sum(part) / sum(t[1] for t in end) for part, end in zip((uses[:tenth], uses[-tenth:]), ends, strict=True)
    ]
    costs = [1e3 * sum(t[2] for t in part) / sum(t[1] for t in part) for part in ends]
    memory = [statistics.median(t[3] for t in part) / 2**20 for part in ends]
    programs = sum(turn[1] for turn in result.turns)
    run.add(
        "screening a program, first and last tenth of a long hunt",
        f"{costs[0]:.1f} and {costs[1]:.1f} ms ({costs[1] / costs[0]:.2f}x; they have {lengths[0]:.1f} and"
        f" {lengths[1]:.1f} operators, which is {costs[1] / lengths[1] / (costs[0] / lengths[0]):.2f}x for an operator;"
        f" {programs} programs in {len(result.turns)} turns)",
    )
    run.add(
        "the same programs before and after that hunt",
        f"{before:.1f} and {after:.1f} ms a program ({after / before:.2f}x)",
    )
    run.add("memory of the parent process, first and last tenth", f"{memory[0]:.0f} and {memory[1]:.0f} MiB")
    run.answer["flatness"] = {
        "milliseconds": costs, "operators": lengths, "probe": [before, after], "mebibytes": memory,
        "programs": programs, "turns": [list(turn) for turn in result.turns],
    }  # fmt: skip


def same_lane(lane: Lane) -> Lane:
    """As it was before its first turn."""
    return make_lane(lane.name, lane.seed)


def timed_probe(lane: Lane, pool: Pool, rounds: int = 3) -> float:
    """Milliseconds for a program of a fixed batch, the median of a few rounds."""
    seconds = []
    for _ in range(rounds):
        fresh = same_lane(lane)
        started = time.monotonic()
        take_turn(fresh, pool, fresh.batch)
        seconds.append(time.monotonic() - started)
    return 1e3 * statistics.median(seconds) / lane.batch


# -- the peer ----------------------------------------------------------------------------------------------------------


def peer(run: Run) -> None:
    try:
        python = _nnsmith.install()
        peer_generation(run, python)
        peer_fuzzing(run, python)
    except _nnsmith.NoPeer as reason:
        run.add("NNSmith", f"not measured: {reason}")


def peer_generation(run: Run, python: Path) -> None:
    """Rounds of both in turn, so that they meet the same load."""
    with _nnsmith.PeerGenerator(python, run.scratch) as other:
        for form in ("torch", "onnx"):
            source = graphs(form, run.seed)
            make_programs(source, form, 0.5)
            other.run(form, 0.5, LENGTH, run.seed)
            rounds = []
            for number in range(run.sizes.rounds):
                ours = make_programs(source, form, run.sizes.round_seconds)
                theirs = other.run(form, run.sizes.round_seconds, LENGTH, run.seed + 1000 * (number + 1))
                rounds.append((ours, theirs))
            graph = statistics.median(o.programs / o.graph / (t["made"] / t["graph"]) for o, t in rounds)
            whole = statistics.median(o.programs / o.whole / (t["made"] / t["whole"]) for o, t in rounds)
            rates = [t["made"] / t["whole"] for _, t in rounds]
            bare = [t["made"] / t["graph"] for _, t in rounds]
            made, failed = sum(t["made"] for _, t in rounds), sum(t["failed"] for _, t in rounds)
            operators = sum(t["operators"] for _, t in rounds) / made
            run.add(
                f"NNSmith: {form} programs made, one core",
                f"{statistics.median(rates):.0f}/s written down, {statistics.median(bare):.0f}/s as graphs"
                f" ({operators:.1f} operators; {failed} of {made + failed} failed; it knows {theirs['kinds']},"
                f" we {len(GENERATORS.get('graph').arms(form))})",
            )
            run.add(f"Driftline against NNSmith, {form} programs", f"{whole:.1f}x written down, {graph:.1f}x as graphs")
            run.answer[f"peer generation {form}"] = {"ratio": whole, "ratio_graphs": graph, "per_second": rates}


def peer_fuzzing(run: Run, python: Path) -> None:
    seconds = run.sizes.peer
    plain = _nnsmith.fuzz(python, run.scratch, seconds, seed=run.seed, processes=2, crash_safe=False)
    _nnsmith.judge_reports(python, run.scratch, plain, run.sizes.peer_judged)
    _say_fuzzed(run, "nnsmith.fuzz, two processes", plain)
    told = ", ".join(f"{count} {name}" for name, count in sorted(plain.judged.items()))
    run.add("what Driftline says to those reports", told or "there are none")
    for message, count in plain.errors.most_common(8):
        print(f"    {count} x {message[:160]}")
    try:
        safe = _nnsmith.fuzz(python, run.scratch, seconds, seed=run.seed + 50, processes=2, crash_safe=True)
        _say_fuzzed(run, "nnsmith.fuzz, two processes, isolated (fuzz.crash_safe)", safe)
        run.answer["peer fuzz isolated"] = safe.to_json()
    except _nnsmith.NoPeer as reason:
        run.add("nnsmith.fuzz, isolated (fuzz.crash_safe)", f"not measured: {reason}")
    with Pool() as pool:
        ours = hunted(["onnxruntime"], seconds, run.scratch / "store-peer", run.seed + 300, pool)
    reports = ours.counts["fail"]
    run.add(
        f"driftline hunt on onnxruntime, the same {seconds} s",
        f"{ours.per_minute:.0f} judged a minute; {reports} failing programs, {ours.bugs} distinct confirmed bugs",
    )
    run.answer["peer fuzz"] = plain.to_json()
    run.answer["peer hunt"] = ours.to_json()


def _say_fuzzed(run: Run, name: str, result: _nnsmith.Fuzzed) -> None:
    run.add(
        f"{name}, {result.seconds:.0f} s on onnxruntime",
        f"{result.per_minute:.0f} tests a minute; {result.reports} reports, at most {result.distinct} distinct"
        f" ({len(result.errors)} messages, {len(result.mismatch_sets)} sets of operators in {result.mismatches}"
        f" mismatches)" + (f"; {result.died}" if result.died else ""),
    )


# -- what it is worth --------------------------------------------------------------------------------------------------


def worth(run: Run) -> None:
    if run.store is None or not (run.store / "store.db").is_file():
        run.add("worth", "no store: give --store, or run the section `judged` too")
        return
    with Store.open(run.store) as store:
        bugs = [store.bug(bug.id) for bug in store.bugs()]
        (findings,) = store.query("SELECT COUNT(*) FROM findings")[0]
        sightings = HuntLog(store).sightings()
        states = Counter(dict(store.query("SELECT state, COUNT(*) FROM suspects GROUP BY state")))
    kinds: dict[str, Counter[str]] = {}
    for bug in bugs:
        cause = next(iter(causes_of(bug)), None)
        standing = (
            "new" if cause is None else "debatable" if cause.debatable else "reported" if cause.reported else "named"
        )
        kinds.setdefault(bug.fingerprint.backend, Counter())[standing] += 1
    statuses = Counter(str(bug.status) for bug in bugs)
    total = sum(kinds.values(), Counter())
    run.add(
        f"worth: {len(bugs)} distinct bugs in {len(kinds)} compilers",
        f"{sum(states.values())} failing programs, {sum(sightings.values())} of them traced to a bug; {findings}"
        " reports kept",
    )
    run.add("their status", ", ".join(f"{count} {name}" for name, count in statuses.most_common()) or "none")
    run.add("by their causes", ", ".join(f"{total[n]} {n}" for n in ("new", "reported", "debatable", "named")))
    print(f"    suspects: {dict(states)}")
    for name, counts in sorted(kinds.items()):
        print(f"    {name}: {sum(counts.values())} distinct: {', '.join(f'{c} {n}' for n, c in counts.most_common())}")
    run.answer["worth"] = {
        "bugs": len(bugs), "reports": findings, "suspects": states, "statuses": statuses, "standing": kinds
    }  # fmt: skip


# -- the run -----------------------------------------------------------------------------------------------------------


def main() -> int:
    arguments = _arguments()
    wanted = [name.strip() for name in arguments.only.split(",")] if arguments.only else list(SECTIONS)
    if arguments.no_peer:
        wanted = [name for name in wanted if name != "peer"]
    work: dict[str, Callable[[Run], None]] = {
        "starts": starts, "first": first, "generation": generation, "judged": judged, "flatness": flatness,
        "peer": peer, "worth": worth
    }  # fmt: skip
    seed = arguments.seed if arguments.seed is not None else int(time.time()) % 10**6 * 1000
    with tempfile.TemporaryDirectory(prefix="driftline-bench-") as scratch:
        run = Run(QUICK if arguments.quick else Sizes(), seed, arguments.keep or Path(scratch), arguments.store)
        for name in wanted:
            started = time.monotonic()
            print(f"{name} (load {os.getloadavg()[0]:.1f})", flush=True)
            work[name](run)
            print(f"  {time.monotonic() - started:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        run.answer |= {"seed": seed, "load": os.getloadavg(), "cores": os.cpu_count(), "quick": arguments.quick}
    print("\n| measured | result | aim |\n|---|---|---|")
    for line in run.lines:
        verdict = "" if line.met is None else " (met)" if line.met else " (**missed**)"
        print(f"| {line.what} | {line.value} | {line.aim}{verdict} |")
    print(f"\nSeed {seed}; {os.cpu_count()} cores, load averages {load}.")
    if arguments.json:
        arguments.json.write_text(json.dumps(run.answer, indent=1))
    return 0 if all(line.met is not False for line in run.lines) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="LIST", help=f"sections, of {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="minutes instead of an hour")
    parser.add_argument("--no-peer", action="store_true", help="leave NNSmith out, and install nothing")
    parser.add_argument("--store", type=Path, help="whose bugs `worth` counts; default: the hunt on all compilers")
    parser.add_argument("--seed", type=int, help="the programs of an earlier run; default: others each time")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep stores and NNSmith's reports here (new folder)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="everything measured, as JSON")
    arguments = parser.parse_args()
    unknown = set((arguments.only or SECTIONS[0]).replace(" ", "").split(",")) - set(SECTIONS)
    if unknown:
        parser.error(f"--only {', '.join(sorted(unknown))}: the sections are {', '.join(SECTIONS)}")
    if arguments.keep:
        if arguments.keep.exists():
            parser.error(f"--keep {arguments.keep}: is there already; name a new folder")
        arguments.keep = arguments.keep.resolve()
        arguments.keep.mkdir(parents=True)
    return arguments


if __name__ == "__main__":
    sys.exit(main())
