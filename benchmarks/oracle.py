"""Does the oracle cry wolf, and what does it miss? One run, one table, the rules of other projects beside it.

    python benchmarks/oracle.py                    # about ten minutes
    python benchmarks/oracle.py --quick            # a few workloads, two seeds
    python benchmarks/oracle.py --workloads 'matmul*' --json result.json
    python benchmarks/oracle.py --results oracle.jsonl --minutes 20    # in pieces: again and again, until all is judged

Legitimate outputs come from real compilers, through the same workers that `driftline check` uses, and from reorderings
made by hand; wrong ones from planted bugs that change at least one bit. Inputs with even seeds are for setting the
limits, those with odd seeds for reporting. A wrong output counts as found *alone* by one judgement; *with pooling* when
the totals over the inputs of its half go beyond the pooled limit; *with lift* when the same bug on the same numbers is
found in float32.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import platform
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import oracle_workloads
import torch
from _lines import append_line, read_lines
from oracle_cost import Cost, measure_cost
from oracle_peers import PEERS, Pair, alarms
from oracle_workloads import WORKLOADS, Workload, sequential_softmax

from driftline.backends import BACKENDS
from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.evidence import NOTHING
from driftline.core.execution import Outcome
from driftline.core.program import SourceBundle
from driftline.core.sentences import describe
from driftline.core.target import Target
from driftline.core.tensors import Array, Arrays, load_tensors, numpy_dtype, save_tensors
from driftline.execute.pool import Pool
from driftline.oracle.arithmetic import declared
from driftline.oracle.rule import JudgedOutputs, ShadowAnswer, judge_outputs
from driftline.oracle.shadow.task import ask_shadow
from driftline.oracle.shadow.torch.shadow import TorchShadow, record
from driftline.oracle.statistics import AGGREGATE_LIMIT, ELEMENT_LIMIT, POOLED_LIMIT, pooled
from driftline.programs.torch_tensors import array_from_tensor

TARGETS = ("eager", "inductor", "onnxruntime:opt=off", "onnxruntime:opt=all", "openvino", "tvm", "xla")
SEEDS = 20  # ten for each half, which is how many inputs are pooled
QUICK = ("matmul K=16", "layer norm", "causal attention", "cumsum")
DRIFT = 1.0001
DRIFT_ON_ALL = "all outputs x 1.0001"
OUTPUT = "output"
MALFORMED = "wrong dtype or shape"


@dataclass(frozen=True)
class Illegitimate:
    """Results that are not legitimate, though no bug was planted: another program is computed than the one given.

    That this is so is measured, not believed: the outputs are also judged as results of the workload's `narrowed`
    program, under the arithmetic that the compiler would have to declare.
    """

    target: str
    workloads: tuple[str, ...]
    dtypes: tuple[str, ...]
    reason: str
    policy: str = ""
    same_as: Callable[..., torch.Tensor] | None = None  # explained too: equal to this to the last bit

    def covers(self, target: str, workload: str, dtype: str) -> bool:
        named = any(fnmatch.fnmatch(workload, pattern) for pattern in self.workloads)
        return named and dtype in self.dtypes and fnmatch.fnmatch(target, self.target)


HALVES = ("float16", "bfloat16")
_ADDS_UP = ("matmul*", "conv*", "layer norm", "MLP*", "causal*", "group*", "logsumexp", "LSTM", "einsum*", "embedding*")
_STEPWISE = ("softmax", "layer norm", "group norm", "MLP*", "causal*")
ILLEGITIMATE = (
    Illegitimate("tvm", _ADDS_UP, HALVES, "sums are kept in the element type", "half-accumulation"),
    # A sum of positive terms that stands still is biased, which no rms-sized error is: here equality is the evidence.
    Illegitimate(
        "tvm",
        ("softmax",),
        ("float16",),
        "sums are kept in the element type, one term after the other",
        "half-accumulation",
        sequential_softmax,
    ),
    Illegitimate("xla", ("cumsum",), HALVES, "sums are kept in the element type", "half-accumulation"),
    Illegitimate("xla", _STEPWISE, HALVES, "torchax computes composites step by step in the element type"),
    Illegitimate("openvino", ("layer norm", "batch*"), ("bfloat16",), "composites are computed in bfloat16"),
    Illegitimate("onnxruntime*", ("causal*",), HALVES, "torch.onnx stores the scale in the element type"),
    Illegitimate("openvino", ("causal*",), HALVES, "torch.onnx stores the scale in the element type"),
    Illegitimate("onnxruntime*", ("layer norm",), ("float64",), "ONNX stores epsilon in float32"),
)
if platform.machine() in ("aarch64", "arm64"):
    _ANY = ("*",)
    ILLEGITIMATE += (
        Illegitimate("onnxruntime*", _ANY, ("float16",), "sums are kept in the element type", "half-accumulation"),
        Illegitimate("openvino", _ANY, ("bfloat16",), "results are cut off instead of rounded"),
        Illegitimate("openvino", ("LSTM",), ("float32",), "tanh by way of a fast exponential", "fast-exp"),
        Illegitimate(
            "openvino", ("conv-transpose",), ("float32", "float16"), "a bug: weights of the first call are kept"
        ),
        Illegitimate("eager", ("conv*",), ("float16",), "oneDNN sums in the element type", "half-accumulation"),
        Illegitimate("inductor", ("conv*",), ("float16",), "oneDNN sums in the element type", "half-accumulation"),
    )


@dataclass(frozen=True)
class Row:
    """One output, judged."""

    workload: str
    dtype: str
    seed: int
    origin: str  # compiler, variant, structural, drift; or illegitimate
    name: str
    alone: bool  # found by the rule as it stands for a single input
    thorough: bool  # found without the shortcut for outputs within one rounding
    element: float
    aggregate: float
    totals: Mapping[str, tuple[float, float]] = field(repr=False)
    peers: tuple[str, ...] = ()
    reason: str = ""
    explained: bool = False  # illegitimate outputs: right for the narrowed program, by a judgement
    other_totals: Mapping[str, tuple[float, float]] = field(default_factory=dict, repr=False)  # and by pooling

    @property
    def chooses(self) -> bool:
        return self.seed % 2 == 0

    @property
    def bug(self) -> tuple[str, str, str]:
        return self.workload, self.name, self.dtype

    @property
    def legitimate(self) -> bool:
        return self.origin in ("compiler", "variant")

    @property
    def wrong(self) -> bool:
        return self.origin in ("structural", "drift")


class Subject:
    """A program on one input, with its shadow."""

    def __init__(self, function: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
        self.inputs = inputs
        self.native = self.run(function)
        self._tape = record(lambda: {OUTPUT: function(*self._copies())})
        self.exact = TorchShadow(self._tape).reference()
        self._answers: dict[tuple[int, str], ShadowAnswer] = {}

    def _copies(self) -> list[torch.Tensor]:
        return [tensor.clone() for tensor in self.inputs]

    def run(self, function: Callable[..., torch.Tensor]) -> Array:
        result = array_from_tensor(function(*self._copies()).contiguous())
        assert not hasattr(self, "native") or (result.dtype, result.shape) == (self.native.dtype, self.native.shape)
        return result

    def judge(self, got: Array, policy: str = "", *, thorough: bool) -> JudgedOutputs:
        arithmetic = declared(policy)

        def ask(runs: int, outputs: Arrays | None) -> ShadowAnswer:
            # No workload returns a choice, so that the compiler's outputs change nothing in the shadow.
            if (runs, policy) not in self._answers:
                self._answers[runs, policy] = ask_shadow(TorchShadow(self._tape, arithmetic), runs, None)
            return self._answers[runs, policy]

        return judge_outputs({OUTPUT: got}, {OUTPUT: self.native}, self.exact, ask, arithmetic, thorough=thorough)


def judged_row(subject: Subject, where: tuple[str, str, int], origin: str, name: str, got: Array, policy: str) -> Row:
    judged = thorough = subject.judge(got, policy, thorough=False)
    if judged.finding is None and judged.closest == NOTHING:  # the shortcut was taken
        thorough = subject.judge(got, policy, thorough=True)
    evidence = thorough.finding.evidence if thorough.finding else thorough.closest
    missing = np.inf if thorough.finding else 0.0
    return Row(
        *where,
        origin,
        name,
        alone=judged.finding is not None,
        thorough=thorough.finding is not None,
        element=missing if evidence.element_z is None else evidence.element_z,
        aggregate=missing if evidence.aggregate_z is None else evidence.aggregate_z,
        totals=thorough.totals,
        peers=tuple(alarms(Pair(got, subject.native, subject.exact[OUTPUT]))),
        reason=describe(thorough.finding.kind, evidence) if thorough.finding else "",
    )


# -- outputs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compiled:
    """What the compilers made of one workload in one type: outputs of all samples, or why there are none."""

    outputs: Mapping[str, Sequence[Array]]
    absent: Mapping[str, str]


class Compilers:
    """Runs the compilers in worker processes, one workload after the other, ahead of the judging."""

    def __init__(self, targets: Sequence[str], seeds: Sequence[int], keep: Path | None) -> None:
        self._targets = [Target.parse(text) for text in targets]
        self._seeds = seeds
        self._keep = keep
        self._pool = Pool()
        self._checker = Checker(self._pool, jobs=1)
        self._thread = ThreadPoolExecutor(max_workers=1)

    def __enter__(self) -> Compilers:
        self._pool.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._pool.__exit__(*error)

    def start(self, workload: Workload, dtype: str) -> Future[Compiled]:
        return self._thread.submit(self._compile, workload, dtype)

    def _compile(self, workload: Workload, dtype: str) -> Compiled:
        case: Case | None = None
        outputs: dict[str, Sequence[Array]] = {}
        absent: dict[str, str] = {}
        for target in self._targets:
            kept = self._kept(workload, dtype, target)
            if kept and kept.exists():
                known = load_tensors(kept)
                outputs[str(target)] = [known[str(seed)] for seed in self._seeds]
                continue
            case = case or self._case(workload, dtype)
            execution = self._checker.execute(case, target)
            if execution.outcome is not Outcome.OK:
                absent[str(target)] = f"{execution.outcome} while {execution.stage}: {execution.failure}"
                continue
            arrays = [next(iter(sample.values())) for sample in execution.outputs]
            if kept:
                kept.parent.mkdir(parents=True, exist_ok=True)
                save_tensors(kept, dict(zip(map(str, self._seeds), arrays, strict=True)))
            outputs[str(target)] = arrays
        right = workload.function(*workload.sample(dtype, self._seeds[0]))
        for name, arrays in list(outputs.items()):
            if (arrays[0].dtype.name, arrays[0].shape) != (dtype, tuple(right.shape)):  # a bug that needs no oracle
                absent[name] = f"{MALFORMED}: returns {arrays[0].dtype}{list(arrays[0].shape)}"
                del outputs[name]
        return Compiled(outputs, absent)

    def _kept(self, workload: Workload, dtype: str, target: Target) -> Path | None:
        name = hashlib.sha256(repr((workload.name, dtype, str(target), tuple(self._seeds))).encode()).hexdigest()[:24]
        return self._keep / name if self._keep else None

    def _case(self, workload: Workload, dtype: str) -> Case:
        source = Path(oracle_workloads.__file__)
        entry = (
            f"import torch\n\nfrom {source.stem} import program_of\n\n\n"
            f"def program():\n    return program_of({workload.name!r}, {dtype!r})\n"
        )
        bundle = SourceBundle("entry.py", "program", {"entry.py": entry, source.name: source.read_text()})
        options = CheckOptions()
        opened = open_source(bundle, self._pool, options, name=f"{workload.name} {dtype}")
        samples = [
            Inputs(
                dict(zip(opened.example, map(array_from_tensor, workload.sample(dtype, seed)), strict=True)),
                f"seed {seed}",
            )
            for seed in self._seeds
        ]
        return Case(opened.program, tuple(samples), (), options)


def planted(workload: Workload, subject: Subject) -> Iterator[tuple[str, str, Array]]:
    """Every wrong output that differs from the right one in at least one bit."""
    native = subject.native
    made = [("structural", name, subject.run(bug)) for name, bug in workload.bugs.items()]
    made += [("drift", name, subject.run(bug)) for name, bug in workload.drifts.items()]
    made.append(("drift", DRIFT_ON_ALL, (subject.exact[OUTPUT] * DRIFT).astype(native.dtype)))
    single = native.copy().reshape(-1)
    place = int(np.argsort(np.abs(single.astype(np.float64)))[single.size // 2])
    single[place] = numpy_dtype(native.dtype.name).type(float(single[place]) * DRIFT)
    made.append(("drift", "one element x 1.0001", single.reshape(native.shape)))
    yield from (output for output in made if output[2].tobytes() != native.tobytes())


def judge_workload(workload: Workload, dtype: str, seeds: Sequence[int], compiled: Compiled) -> Iterator[Row]:
    for index, seed in enumerate(seeds):
        with torch.no_grad():
            inputs = workload.sample(dtype, seed)
            subject = Subject(workload.function, inputs)
            where = (workload.name, dtype, seed)
            for name, function in workload.variants.items():
                yield judged_row(subject, where, "variant", name, subject.run(function), "")
            for origin, name, got in planted(workload, subject):
                yield judged_row(subject, where, origin, name, got, "")
        for name, outputs in compiled.outputs.items():
            got = outputs[index]
            policy = BACKENDS.get(Target.parse(name).backend).arithmetic
            apart = next((i for i in ILLEGITIMATE if i.covers(name, workload.name, dtype)), None)
            row = judged_row(subject, where, "illegitimate" if apart else "compiler", name, got, policy)
            if apart:
                with torch.no_grad():
                    narrowed = Subject(workload.narrowed or workload.function, inputs)
                other = narrowed.judge(got, "+".join(filter(None, (policy, apart.policy))), thorough=True)
                equal = apart.same_as and subject.run(apart.same_as).tobytes() == got.tobytes()
                row = replace(row, explained=bool(equal) or other.finding is None, other_totals=other.totals)
            yield row


# -- the table ---------------------------------------------------------------------------------------------------------


class Report:
    """Everything that is printed, from the rows."""

    def __init__(self, rows: Sequence[Row], rejected: Mapping[str, int], seeds: int) -> None:
        self.rows = rows
        self.rejected = rejected
        self.seeds = seeds
        self.pooled = _pooled(rows)
        self._in_float32 = {(r.workload, r.name, r.seed) for r in rows if r.dtype == "float32" and r.alone and r.wrong}

    def false_alarm(self, row: Row) -> bool:
        return row.thorough

    def by_pooling(self, row: Row) -> bool:
        return row.alone or row.thorough or self.pooled[row.bug, row.chooses] > POOLED_LIMIT

    def by_lift(self, row: Row) -> bool:
        return self.by_pooling(row) or (row.workload, row.name, row.seed) in self._in_float32

    def print(self) -> None:
        legitimate = [r for r in self.rows if r.legitimate]
        reported = [r for r in self.rows if not r.chooses]
        self._print_data(legitimate)
        self._print_illegitimate()
        self._print_choice([r for r in legitimate if r.chooses])
        self._print_peers(reported)
        self._print_detection(reported)
        self._print_missed(reported)

    def _print_data(self, legitimate: Sequence[Row]) -> None:
        sources = Counter(r.name if r.origin == "compiler" else "reorderings by hand" for r in legitimate)
        wrong = [r for r in self.rows if r.wrong]
        kinds = Counter(r.origin for r in wrong)
        workloads = {r.workload for r in self.rows}
        print(f"{len(workloads)} workloads x their element types x {self.seeds} seeds")
        print(f"{len(legitimate)} legitimate outputs: " + ", ".join(f"{n} {s}" for s, n in sources.items()))
        print(f"{len(wrong)} outputs with a visible bug: " + ", ".join(f"{n} {k}" for k, n in kinds.items()))
        print("left out, the compiler does not take them: " + (_counts(self.rejected) or "none"))

    def _print_illegitimate(self) -> None:
        for entry in ILLEGITIMATE:
            rows = [r for r in self.rows if r.origin == "illegitimate" and entry.covers(r.name, r.workload, r.dtype)]
            if not rows:
                continue
            print(f"left out, not legitimate: {len(rows)} of {entry.target}, {'/'.join(entry.dtypes)}: {entry.reason}")
            kinds = [(r.bug, r.chooses) for r in rows]
            before = sum(self.pooled[kind] > POOLED_LIMIT for kind in set(kinds))
            after = _pooled([replace(r, totals=r.other_totals) for r in rows])
            names = ", ".join(sorted({r.workload for r in rows}))
            wrong, still = sum(r.thorough for r in rows), sum(not r.explained for r in rows)
            print(
                f"  {names}: as given {wrong} outputs and {before} of {len(set(kinds))} pools called wrong;"
                f" as narrowed {still} and {sum(z > POOLED_LIMIT for z in after.values())}"
            )

    def _print_choice(self, choosing: Sequence[Row]) -> None:
        print("\nLimits in force, against the largest legitimate z on even seeds")
        worst = {
            "element": (max(choosing, key=lambda r: r.element, default=None), ELEMENT_LIMIT),
            "aggregate": (max(choosing, key=lambda r: r.aggregate, default=None), AGGREGATE_LIMIT),
        }
        for kind, (row, limit) in worst.items():
            if row:
                place = f"{row.workload}, {row.dtype}, {row.name}"
                print(f"  {kind:9s} {getattr(row, kind):5.2f}  limit {limit:4.1f}  ({place})")
        bugs = {r.bug for r in choosing}
        if bugs:
            bug = max(bugs, key=lambda b: self.pooled[b, True])
            place = f"{bug[0]}, {bug[2]}, {bug[1]}"
            print(f"  {'pooled':9s} {self.pooled[bug, True]:5.2f}  limit {POOLED_LIMIT:4.1f}  ({place})")

    def _print_peers(self, reported: Sequence[Row]) -> None:
        legitimate, wrong = [r for r in reported if r.legitimate], [r for r in reported if r.wrong]
        single = [r for r in wrong if r.dtype == "float32"]
        bugs = {r.bug for r in legitimate}
        over = sum(self.pooled[bug, False] > POOLED_LIMIT for bug in bugs)
        print(f"\nReported on odd seeds: {len(legitimate)} legitimate outputs, {len(wrong)} wrong ones")
        print("\n| rule | false alarms | bugs found | in float32 |\n|---|---|---|---|")
        ours: list[tuple[str, str, Callable[[Row], bool]]] = [
            ("**Driftline**, one judgement", _share(legitimate, lambda r: r.thorough), lambda r: r.alone),
            ("**Driftline**, with pooling", f"{over} / {len(bugs)} pools", self.by_pooling),
            ("**Driftline**, with pooling and lift", f"{over} / {len(bugs)} pools", self.by_lift),
        ]
        for name, told, found in ours:
            print(f"| {name} | {told} | {_share(wrong, found)} | {_share(single, found)} |")
        for peer in PEERS:
            cells = [_share(rows, lambda r, peer=peer: peer in r.peers) for rows in (legitimate, wrong, single)]
            print(f"| {peer} | {' | '.join(cells)} |")
        everything = [r for r in self.rows if r.legitimate]
        pools = [z for (bug, _), z in self.pooled.items() if bug in {r.bug for r in everything}]
        false = sum(r.thorough for r in everything)
        print(
            f"\nBoth halves: {false} false alarms in {len(everything)} legitimate outputs,"
            f" {sum(z > POOLED_LIMIT for z in pools)} in {len(pools)} pools of {self.seeds // 2} (largest z"
            f" {max(pools, default=0.0):.2f})"
        )

    def _print_detection(self, reported: Sequence[Row]) -> None:
        wrong = [r for r in reported if r.wrong]
        print("\n| bugs | dtype | outputs | alone | with pooling | with pooling and lift |\n|---|---|---|---|---|---|")
        groups: dict[str, Callable[[Row], bool]] = {
            "structural": lambda r: r.origin == "structural",
            DRIFT_ON_ALL: lambda r: r.name == DRIFT_ON_ALL,
            "other drift": lambda r: r.origin == "drift" and r.name != DRIFT_ON_ALL,
            "all": lambda r: True,
        }
        for group, belongs in groups.items():
            for dtype in ("float64", "float32", "float16", "bfloat16", "all"):
                rows = [r for r in wrong if belongs(r) and dtype in (r.dtype, "all")]
                if rows:
                    cells = [_share(rows, found) for found in (lambda r: r.alone, self.by_pooling, self.by_lift)]
                    print(f"| {group} | {dtype} | {len(rows)} | {' | '.join(cells)} |")

    def _print_missed(self, reported: Sequence[Row]) -> None:
        for title, found in (("pooling", self.by_pooling), ("pooling and lift", self.by_lift)):
            missed = Counter(r.bug for r in reported if r.wrong and not found(r))
            print(f"\nNot found with {title}: {sum(missed.values())} outputs" + (":" if missed else ""))
            for (workload, name, dtype), count in sorted(missed.items()):
                z = self.pooled[(workload, name, dtype), False]
                print(f"  {count:3d} x {workload}, {dtype}: {name} (pooled z {z:.1f})")
        for row in self.rows:
            if row.legitimate and row.thorough:
                print(f"FALSE ALARM: {row.workload}, {row.dtype}, {row.name}, seed {row.seed}: {row.reason}")
        for (bug, chooses), z in self.pooled.items():
            if z > POOLED_LIMIT and any(r.legitimate and r.bug == bug for r in self.rows):
                half = "even" if chooses else "odd"
                print(f"FALSE ALARM in a pool: {bug[0]}, {bug[2]}, {bug[1]}, {half} seeds: {z:.2f}")

    @property
    def alarms(self) -> int:
        known = {r.bug for r in self.rows if r.legitimate}
        pools = sum(z > POOLED_LIMIT for (bug, _), z in self.pooled.items() if bug in known)
        return pools + sum(r.legitimate and r.thorough for r in self.rows)

    def to_json(self) -> dict[str, Any]:
        rows = [
            {**asdict(r), "totals": None, "other_totals": None, "pooling": self.by_pooling(r), "lift": self.by_lift(r)}
            for r in self.rows
        ]
        limits = {"element": ELEMENT_LIMIT, "aggregate": AGGREGATE_LIMIT, "pooled": POOLED_LIMIT}
        pools = [
            {"workload": bug[0], "name": bug[1], "dtype": bug[2], "even": chooses, "z": z}
            for (bug, chooses), z in self.pooled.items()
        ]
        return {"limits": limits, "rows": rows, "pools": pools, "rejected": dict(self.rejected)}


def _pooled(rows: Sequence[Row]) -> dict[tuple[tuple[str, str, str], bool], float]:
    """The pooled z of each kind of output, for each half."""
    totals: dict[tuple[tuple[str, str, str], bool], list[Mapping[str, tuple[float, float]]]] = defaultdict(list)
    for row in rows:
        totals[row.bug, row.chooses].append(row.totals)
    return {key: pooled(many)[0] for key, many in totals.items()}


def _share(rows: Sequence[Row], predicate: Callable[[Row], bool]) -> str:
    if not rows:
        return "-"
    count = sum(map(predicate, rows))
    return f"{count} / {len(rows)} ({100 * count / len(rows):.1f} %)"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def print_cost(cost: Cost) -> None:
    print("\nCost, in processor time")
    print(f"  6x1024 MLP, 8 samples: {cost.mlp_ratio:.1f} unoptimised runs ({cost.mlp_seconds * 1e3:.0f} ms)")
    print(
        f"  graphs of ten small operators, whole judgement with 16 samples: median {cost.graph_median * 1e3:.1f} ms,"
        f" worst {cost.graph_worst * 1e3:.0f} ms"
    )
    chain = ", ".join(f"{length}: {seconds * 1e3:.2f}" for length, seconds in cost.per_operator.items())
    print(f"  chains, ms per operator by length: {chain}")
    print(f"  load of the machine meanwhile: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


# -- the run -----------------------------------------------------------------------------------------------------------


def main() -> int:
    arguments = _arguments()
    torch.set_num_threads(1)
    seeds = range(2 if arguments.quick else arguments.seeds)
    chosen = [
        w for w in WORKLOADS.values()
        if fnmatch.fnmatch(w.name, arguments.workloads) and (not arguments.quick or w.name in QUICK)
    ]  # fmt: skip
    jobs = [(w, dtype) for w in chosen for dtype in w.dtypes]
    started = time.monotonic()
    # Before the compilers start: they would run beside it. Pieces of a run are for machines that do other things.
    cost = None if arguments.results else measure_cost()
    pieces = _read(arguments.results, len(seeds), arguments.targets) if arguments.results else []
    done = {(piece.workload, piece.dtype) for piece in pieces}
    left = [(w, dtype) for w, dtype in jobs if (w.name, dtype) not in done]
    with Compilers(arguments.targets.split(","), seeds, arguments.keep) as compilers:
        waiting = [(w, dtype, compilers.start(w, dtype)) for w, dtype in left]
        for number, (workload, dtype, future) in enumerate(waiting, 1):
            if arguments.minutes and time.monotonic() - started > 60 * arguments.minutes:
                _progress(f"{len(left) - number + 1} of {len(jobs)} are left for another time")
                break
            compiled = future.result()
            for target, reason in compiled.absent.items():
                _progress(f"  {target} takes no {workload.name} {dtype}: {reason[:160]}")
            new = list(judge_workload(workload, dtype, seeds, compiled))
            pieces.append(Piece(workload.name, dtype, len(seeds), arguments.targets, tuple(new), dict(compiled.absent)))
            if arguments.results:
                append_line(arguments.results, asdict(pieces[-1]))
            wolves = sum(r.legitimate and r.thorough for r in new)
            found = [r for r in new if r.wrong]
            _progress(
                f"[{number}/{len(left)}] {workload.name} {dtype}: {sum(r.legitimate for r in new)} legitimate,"
                f" {wolves} false alarms; {sum(r.alone for r in found)} of {len(found)} bugs found alone"
                f" ({time.monotonic() - started:.0f} s)"
            )
    wanted = {(w.name, dtype) for w, dtype in jobs}
    pieces = [piece for piece in pieces if (piece.workload, piece.dtype) in wanted]
    rejected: Counter[str] = Counter()
    for piece in pieces:
        for target, reason in piece.absent.items():
            rejected[f"{target} ({MALFORMED})" if reason.startswith(MALFORMED) else target] += len(seeds)
    report = Report([row for piece in pieces for row in piece.rows], rejected, len(seeds))
    report.print()
    if cost:
        print_cost(cost)
    print(f"\n{time.monotonic() - started:.0f} s in all; {len(pieces)} of {len(jobs)} workloads and types")
    if arguments.json:
        arguments.json.write_text(json.dumps({**report.to_json(), "cost": asdict(cost) if cost else None}, indent=1))
    return 1 if report.alarms else 0


@dataclass(frozen=True)
class Piece:
    """One workload in one type, judged."""

    workload: str
    dtype: str
    seeds: int
    targets: str
    rows: tuple[Row, ...]
    absent: Mapping[str, str]  # by target, why it has no outputs


def _read(results: Path, seeds: int, targets: str) -> list[Piece]:
    """What was judged so far with these seeds and targets."""
    same = [line for line in read_lines(results) if (line["seeds"], line["targets"]) == (seeds, targets)]
    rows = [tuple(Row(**row | {"peers": tuple(row["peers"])}) for row in line["rows"]) for line in same]
    return [Piece(**line | {"rows": made}) for line, made in zip(same, rows, strict=True)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", metavar="GLOB", default="*")
    parser.add_argument("--targets", metavar="LIST", default=",".join(TARGETS), help="default: %(default)s")
    parser.add_argument(
        "--seeds", type=int, default=SEEDS, help="inputs for each workload and type (default %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="a few workloads, two seeds")
    parser.add_argument("--results", type=Path, metavar="FILE", help="go on from here, and write down what is judged")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin nothing after so many; default: no limit")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every output with its verdicts, as JSON")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep and reuse what compilers return, to work on the oracle itself"
    )
    return parser.parse_args()


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
