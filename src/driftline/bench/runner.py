"""Run the suite: time and then judge every model on every target, row by row.

Eager is always among the targets: timed against itself, it shows the noise of the machine, and no target is called
faster or slower within that noise. A failure of one target does not end the run.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from driftline import __version__
from driftline.bench.options import BenchOptions
from driftline.bench.result import BenchModel, BenchRow, BenchRun
from driftline.bench.suite import SUITE
from driftline.bench.timing import UNAVAILABLE, timed_row
from driftline.bench.words import row_words
from driftline.checking.checker import Checker
from driftline.checking.open import LoadedProgram, open_source
from driftline.checking.precision import reviewed
from driftline.checking.timed import baseline_of
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.execution import Outcome
from driftline.core.target import Target
from driftline.events import Listener, StepDone, StepsPlanned, StepStarted, Working, ignore
from driftline.measure.estimate import beyond, noise_floor
from driftline.oracle.judge import Reference

FASTER, SLOWER, NOISE = "faster", "slower", "within noise"
_CONCLUSIONS = {1: FASTER, -1: SLOWER, 0: NOISE}


def run_bench(
    checker: Checker,
    models: Sequence[str],
    targets: Sequence[Target],
    options: BenchOptions | None = None,
    *,
    listener: Listener = ignore,
    keep: Callable[[BenchRun], None] = lambda run: None,
    known: Sequence[BenchRow] = (),
) -> BenchRun:
    """Measure these models of the suite on these targets. `keep` is called with the results so far after each step.
    `known`: rows of an unfinished run with the same options, which are not measured again.
    """
    options = options or BenchOptions()
    every = _with_baselines(targets)
    listener(StepsPlanned(len(models) * len(every) * (2 if options.verdict else 1)))
    run = BenchRun(
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), __version__, machine_words(), options.size, options.dtype,
        options.repeat, options.seconds, options.seed, tuple(map(str, every)),
    )  # fmt: skip
    for name in models:
        model = _Model(checker, name, every, options, listener, [row for row in known if row.model == name])
        before = run

        def keep_rows(found: BenchModel, rows: Sequence[BenchRow], before: BenchRun = before) -> None:
            keep(replace(before, models=(*before.models, found), rows=(*before.rows, *rows)))

        model.measure(keep_rows)
        run = replace(before, models=(*before.models, model.found), rows=(*before.rows, *model.rows.values()))
    run = replace(run, complete=True)
    keep(run)
    return run


def _with_baselines(targets: Sequence[Target]) -> list[Target]:
    """Return all targets, each after the eager target that it is timed against."""
    found: dict[Target, None] = {}
    for baseline in dict.fromkeys(map(baseline_of, targets)):
        found |= dict.fromkeys([baseline, *(target for target in targets if baseline_of(target) == baseline)])
    return list(found)


class _Model:
    """Measures one model of the suite on all targets."""

    def __init__(
        self, checker: Checker, name: str, targets: Sequence[Target], options: BenchOptions, listener: Listener,
        known: Sequence[BenchRow],
    ) -> None:  # fmt: skip
        self._checker = checker
        self._targets = targets
        self._options = options
        self._listener = listener
        self._sized = SUITE[name][options.size]
        self.found = BenchModel(name, self._sized.corpus, self._sized.words)
        self.rows: dict[Target, BenchRow] = {}
        self._known = {row.target: row for row in known}

    def measure(self, keep: Callable[[BenchModel, Sequence[BenchRow]], None]) -> None:
        """Time and judge the model on every target. `keep` is called after each step."""
        self._listener(Working(self.found.name, "building"))
        checks = self._options.of_checks()
        try:
            bundle = self._sized.bundle(self._options.dtype)
            opened = open_source(bundle, self._checker.pool, checks, name=self._sized.corpus)
        except DriftlineError as error:
            self.found = replace(self.found, problem=str(error))
            for target in self._targets:
                self._step(target, partial(self._unbuilt, problem=str(error)))
            return
        self.found = replace(self.found, weights=opened.program.weights)
        case = self._case(opened, checks)
        for target in self._targets:
            self._step(target, partial(self._timed, case=case))
            keep(self.found, list(self.rows.values()))
        if self._options.verdict:
            self._listener(Working(self.found.name, "computing the reference"))
            if self._sized.judged_on:
                bundle = self._sized.judged().bundle(self._options.dtype)
                opened = open_source(bundle, self._checker.pool, checks, name=self._sized.corpus)
                case = self._case(opened, checks)
                self.found = replace(self.found, judged_on=self._sized.judged_on)
            reference = self._checker.reference(case)
            for target in self._targets:
                self._step(target, partial(self._judged, case=case, reference=reference))
                keep(self.found, list(self.rows.values()))

    def _case(self, opened: LoadedProgram, checks: CheckOptions) -> Case:
        return Case(opened.program, (Inputs(opened.example, "example"),), tuple(self._targets), checks)

    def _unbuilt(self, target: Target, problem: str) -> BenchRow:
        return BenchRow(self.found.name, str(target), outcome=str(Outcome.ERROR), stage="", problem=problem)

    def _timed(self, target: Target, case: Case) -> BenchRow:
        if known := self._known.get(str(target)):
            return known
        row = timed_row(
            self._checker,
            self.found.name,
            case,
            target,
            options=self._options,
            tell=lambda words: self._listener(Working(self._name_of(target), words)),
        )
        eager = self.rows.get(baseline_of(target))
        if row.speedup is None or eager is None or eager.speedup is None:
            return row
        return replace(row, conclusion=_CONCLUSIONS[beyond(row.speedup, noise_floor(eager.speedup))])

    def _judged(self, target: Target, case: Case, reference: Reference) -> BenchRow:
        """Judge the row's target by the ordinary check, in processes of its own."""
        row = self.rows[target]
        if row.outcome == UNAVAILABLE or row.verdict:
            return row
        self._listener(Working(self._name_of(target), "judging"))
        outcome = self._checker.check(
            case.only(target), known_reference=reference, review=partial(reviewed, self._checker)
        )
        for result in outcome.results:
            return replace(row, verdict=str(result.verdict.judgement), reason=result.verdict.reason)
        return replace(row, verdict="inconclusive", reason=outcome.skipped[0].reason)

    def _step(self, target: Target, work: Callable[[Target], BenchRow]) -> None:
        name = self._name_of(target)
        self._listener(StepStarted(name))
        self.rows[target] = work(target)
        self._listener(StepDone(name, row_words(self.rows[target])))

    def _name_of(self, target: Target) -> str:
        return f"{self.found.name} on {target}"


def machine_words() -> str:
    """Return the name of the processor and its number of cores."""
    cores = "?"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cores = str(sum(line.startswith("processor") for line in lines))
        named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        named = ""
    return f"{platform.machine()}{f', {named}' if named else ''}, {cores} cores"
