"""Run every model on every input with every framework. Failures are checked again and stored.

Models are measured in batches. The results of a framework are written to the run's folder after each batch and are not
measured again: a killed run resumes where it stopped, and a framework can be added later.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypedDict, TypeVar

from driftline.backends import resolve
from driftline.campaign.check.session import keep_failures, maker_of
from driftline.causes import Library
from driftline.checking.batch_requests import InvalidProgram
from driftline.checking.checker import Checker, Skipped
from driftline.checking.open import LoadedProgram, open_program
from driftline.checking.precision import reviewed
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.program import Program, file_digest
from driftline.core.tensors import Arrays, TensorSpec
from driftline.core.verdict import Judgement
from driftline.events import Listener, ModelsMeasured, RunPlanned, Working, ignore
from driftline.execute.shelf import save_samples
from driftline.inputs.files import read_arrays
from driftline.instabilities.frameworks import DEFAULT_FRAMEWORKS, Framework, available
from driftline.instabilities.measuring import ModelScreener, ReferredModel
from driftline.instabilities.models import FORMS, MEANING, METADATA, ModelFiles, read_models
from driftline.instabilities.records import ModelRecord, RunFolder, RuntimeRecord, counted_words
from driftline.instabilities.requests import ReferItem
from driftline.instabilities.samples import InputSource, check_source, input_files, make_inputs, write_samples
from driftline.store import Bug, Store

BATCH = 24  # models at a time
SOLVING = 2.0  # seconds for the inputs of one model

_Result = TypeVar("_Result")


class RunKeywords(TypedDict, total=False):
    """The settings of a run as keyword arguments; the fields of `RunSettings`."""

    inputs: str
    frameworks: str
    seed: int
    timeout: float
    solving: float
    specs: Sequence[str]


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run over the models of a folder."""

    inputs: str = "specials"  # "specials", "symbolic", or a file or folder of inputs
    frameworks: str = DEFAULT_FRAMEWORKS
    seed: int = 0
    timeout: float = 60.0  # seconds for one model
    solving: float = SOLVING  # seconds to solve the inputs of one model
    specs: Sequence[str] = ()  # what the bytes of KLEE's test cases are, such as `input:float32[3]`


@dataclass(frozen=True)
class RunPlan:
    """The settings of a run, parsed. `budget` is the time in seconds for solving the inputs of one model."""

    models: Path
    inputs: str
    frameworks: tuple[Framework, ...]
    out: Path
    options: CheckOptions
    budget: float = SOLVING
    jobs: int = 2
    specs: tuple[TensorSpec, ...] = ()  # what the bytes of a foreign file of inputs are

    def settings(self) -> dict[str, object]:
        """Return the settings that must not change when a run resumes."""
        return {
            "models": _digest(self.models),
            "inputs": _inputs_digest(self.inputs, self.specs),
            "seed": self.options.seed,
        }


@dataclass
class RunResult:
    """The results of a run. `skipped` are frameworks that are not available, and models that a framework does not
    accept."""

    folder: RunFolder
    records: list[ModelRecord] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    bugs: dict[str, Bug] = field(default_factory=dict)
    resumed: int = 0  # pairs of a model and a framework that were there already


def _digest(folder: Path) -> str:
    """Return a hash of the models: of the metadata in a composed folder, else of all model files."""
    metadata = folder / METADATA
    files = [metadata] if metadata.is_file() else sorted(p for p in folder.iterdir() if p.suffix in FORMS)
    found = hashlib.sha256()
    for path in files:
        found.update(f"{path.name} {file_digest(path)}\n".encode())
    return found.hexdigest()


def _inputs_digest(source: str, specs: Sequence[TensorSpec]) -> str:
    path = Path(source)
    if not path.exists():
        return source
    told = [*map(str, specs), *(file_digest(file) for file in input_files(path))]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def run_models(
    checker: Checker, store: Store, plan: RunPlan, *, library: Library | None = None, listener: Listener = ignore
) -> RunResult:
    """Start a run, or resume the run in `plan.out`."""
    check_source(plan.inputs)
    models = read_models(plan.models)
    here, skipped = available(plan.frameworks)
    if not here:
        told = "; ".join(f"{one.target}: {one.reason}" for one in skipped)
        raise DriftlineError(f"None of the frameworks is available here. {told}")
    folder = RunFolder(plan.out)
    folder.begin(plan.settings(), {"folder": str(plan.models.resolve()), "source": plan.inputs})
    return _ModelRun(checker, store, plan, folder, library, listener).run(models, here, skipped)


@dataclass
class _Opened:
    """A model of the current batch: its record, its inputs, and its programs by format."""

    files: ModelFiles
    record: ModelRecord
    forms: frozenset[str]  # those that are run
    samples: list[Inputs] = field(default_factory=list)
    programs: dict[str, LoadedProgram] = field(default_factory=dict)
    referred: dict[str, ReferredModel] = field(default_factory=dict)


@dataclass
class _UnstablePair:
    """A model that failed on a framework, to be checked again."""

    model: _Opened
    framework: Framework
    form: str
    made: RuntimeRecord


class _ModelRun:
    """The state of a run in progress."""

    def __init__(
        self,
        checker: Checker,
        store: Store,
        plan: RunPlan,
        folder: RunFolder,
        library: Library | None,
        listen: Listener,
    ) -> None:
        self._checker, self._pool, self._store = checker, checker.pool, store
        self._plan, self._folder, self._library, self._listen = plan, folder, library, listen
        self._result = RunResult(folder)
        self._writing = threading.Lock()

    def run(
        self, models: Sequence[ModelFiles], frameworks: Sequence[Framework], skipped: Sequence[Skipped]
    ) -> RunResult:
        self._result.skipped = [*skipped, *_unable(models, frameworks)]
        known = {model.name: self._folder.read(model.name) for model in models}
        todo = {
            model.name: [f for f in frameworks if f.form(model) and not _has(known[model.name], f)] for model in models
        }
        pairs = sum(1 for model in models for f in frameworks if f.form(model))
        left = sum(map(len, todo.values()))
        self._result.resumed = pairs - left
        self._listen(RunPlanned(left, self._result.resumed, tuple(self._result.skipped)))
        waiting = [model for model in models if todo[model.name]]
        for start in range(0, len(waiting), BATCH):
            part = waiting[start : start + BATCH]
            self._batch([_Opened(m, known[m.name] or _empty(m), _forms(m, todo[m.name])) for m in part], todo)
        self._result.records = self._folder.records()
        names = {bug for record in self._result.records for one in record.runtimes for bug in one.bugs}
        self._result.bugs = {name: self._store.bug(name) for name in sorted(names) if self._store.has_bug(name)}
        return self._result

    def _batch(self, models: Sequence[_Opened], todo: dict[str, list[Framework]]) -> None:
        self._side_by_side(self._open, models)
        able = [model for model in models if not model.record.problem]
        for model in models:
            if model.record.problem:
                self._folder.write(model.record)
                self._listen(ModelsMeasured(model.files.name, len(todo[model.files.name]), model.record.problem))
        suspects: list[_UnstablePair] = []
        frameworks = list(dict.fromkeys(f for model in able for f in todo[model.files.name]))
        with ExitStack() as stack:
            screeners = {
                form: stack.enter_context(
                    ModelScreener(
                        self._pool,
                        MEANING[form],
                        plugins=self._plan.options.plugins,
                        timeout=self._plan.options.timeout,
                    )
                )
                for form in {form for model in able for form in model.programs}
            }
            self._side_by_side(lambda form: self._refer(screeners[form], form, able), list(screeners))

            def measure(framework: Framework) -> None:
                asked = [m for m in able if framework in todo[m.files.name]]
                for form, screener in screeners.items():
                    taken = [m for m in asked if framework.form(m.files) == form]
                    if taken:
                        suspects.extend(self._measure(screener, framework, form, taken))

            self._side_by_side(measure, frameworks)
            self._side_by_side(self._examine, suspects)

    def _open(self, model: _Opened) -> None:
        """Open the programs of a model, and make its inputs, or read them if the run resumes."""
        options, name = self._plan.options, model.files.name
        self._listen(Working("inputs", name))
        try:
            model.programs = {
                form: open_program(text, self._pool, options)
                for form, text in model.files.programs.items()
                if form in model.forms
            }
            first = next(iter(model.programs.values()))
            folder = self._folder.inputs(name)
            if model.record.inputs:
                specs = first.program.inputs
                model.samples = [
                    Inputs(read_arrays(folder / f"{number}.npz", specs), origin)
                    for number, origin in enumerate(model.record.inputs)
                ]
                return
            maker = maker_of(first, options)
            source = InputSource(self._plan.inputs, self._plan.budget, self._plan.specs)
            model.samples = make_inputs(self._pool, first, maker, options, source)
            write_samples(folder, model.samples)
            model.record = replace(model.record, inputs=tuple(sample.origin for sample in model.samples))
        except DriftlineError as error:
            model.record = replace(model.record, problem=str(error))

    def _refer(self, screener: ModelScreener, form: str, models: Sequence[_Opened]) -> None:
        asked = [model for model in models if form in model.programs]
        items = []
        for number, model in enumerate(asked):
            tensors = screener.folder / f"{form}{number}.inputs"
            program = model.programs[form].program
            save_samples(tensors, [_renamed(sample, program) for sample in model.samples])
            items.append(ReferItem(program, str(tensors), tuple(sample.origin for sample in model.samples)))
        for model, found in zip(asked, screener.refer(items), strict=True):
            if isinstance(found, InvalidProgram):
                model.record = replace(model.record, problem=f"the reference of {form} does not run: {found.reason}")
            else:
                model.referred[form] = found

    def _measure(
        self, screener: ModelScreener, framework: Framework, form: str, models: Sequence[_Opened]
    ) -> list[_UnstablePair]:
        """Measure the models on a framework. Stores those that pass, and returns those that fail, to be checked
        again."""
        ready = {number: model.referred[form] for number, model in enumerate(models) if form in model.referred}
        version = framework.target.version or resolve(framework.target).version()
        rows = screener.measure(ready, framework.target) if ready else {}
        suspects = []
        for number, model in enumerate(models):
            made = RuntimeRecord(framework.name, str(framework.target), version, rows.get(number, ()))
            if any(row.verdict == "fail" for row in made.rows):
                suspects.append(_UnstablePair(model, framework, form, made))
            else:
                self._keep(model, made)
        self._listen(ModelsMeasured(framework.name, len(models), counted_words(rows.values())))
        return suspects

    def _keep(self, model: _Opened, made: RuntimeRecord) -> None:
        with self._writing:
            model.record = model.record.with_runtime(made)
            self._folder.write(model.record)

    def _examine(self, suspect: _UnstablePair) -> None:
        """Check the first failing input of a model again, in fresh processes and with every known excuse considered,
        and store the result. Other failing inputs of the same pair are rarely another bug."""
        row = next(row for row in suspect.made.rows if row.verdict == "fail")
        program = suspect.model.programs[suspect.form].program
        sample = suspect.model.samples[row.input]
        inputs = Inputs(_renamed(sample, program), sample.origin)
        self._listen(Working("checking again", f"{suspect.model.files.name} on {suspect.framework.name}"))
        case = Case(program, (inputs,), (suspect.framework.target,), self._plan.options)
        outcome = self._checker.check(case, review=partial(reviewed, self._checker))
        wrong = tuple(row for row in outcome.results if row.verdict.judgement is Judgement.FAIL)
        bugs = keep_failures(self._checker, self._store, replace(outcome, results=wrong), self._library, self._listen)
        made, told = suspect.made, outcome.results[0].verdict if outcome.results else None
        if told is None or told.judgement is not Judgement.FAIL:
            verdict = str(told.judgement) if told else "inconclusive"
            reason = told.reason if told else outcome.skipped[0].reason
            rows = [
                replace(one, verdict=verdict, reason=f"checked alone: {reason}") if one.verdict == "fail" else one
                for one in made.rows
            ]
            made = replace(made, rows=tuple(rows))
        self._keep(suspect.model, replace(made, bugs=tuple(bug.id for bug in bugs.values())))

    def _side_by_side(self, work: Callable[[_Result], None], items: Sequence[_Result]) -> None:
        """Call `work` on each item in threads. If interrupted, ends the running jobs."""
        with ThreadPoolExecutor(max(1, min(self._plan.jobs, len(items)))) as threads:
            running: list[Future[None]] = [threads.submit(work, item) for item in items]
            try:
                for job in running:
                    job.result()
            except BaseException as error:
                threads.shutdown(wait=False, cancel_futures=True)
                while isinstance(error, KeyboardInterrupt) and wait(running, timeout=0.0).not_done:
                    self._pool.interrupt()
                    wait(running, timeout=0.1)
                raise


def _forms(model: ModelFiles, frameworks: Sequence[Framework]) -> frozenset[str]:
    return frozenset(form for framework in frameworks if (form := framework.form(model)))


def _empty(model: ModelFiles) -> ModelRecord:
    return ModelRecord(model.name, expression=model.expression, operators=model.operators)


def _has(record: ModelRecord | None, framework: Framework) -> bool:
    """True if the record has results of the framework. Models that could not be opened have none, so they are tried
    again."""
    return record is not None and any(one.framework == framework.name for one in record.runtimes)


def _unable(models: Sequence[ModelFiles], frameworks: Sequence[Framework]) -> list[Skipped]:
    found = []
    for framework in frameworks:
        unfit = [model for model in models if framework.form(model) is None]
        if unfit:
            some = f"{len(unfit)} of {len(models)} models" if len(unfit) < len(models) else "any of the models"
            takes = " or ".join(resolve(framework.target).accepts)
            found.append(Skipped(framework.target, f"cannot take {some}: it takes {takes}"))
    return found


def _renamed(sample: Inputs, program: Program) -> Arrays:
    """Return the arrays under the input names of `program`, another format of the same model. Inputs are paired by
    position."""
    names = [spec.name for spec in program.inputs]
    if set(names) == set(sample.arrays) or len(names) != len(sample.arrays):
        return dict(sample.arrays)
    return dict(zip(names, sample.arrays.values(), strict=True))
