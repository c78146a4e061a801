"""Checks of programs: run a case on each target and store every failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from driftline.backends import BACKENDS, resolve
from driftline.backends.base import Backend
from driftline.backends.presets import DEFAULT, PRESETS, holds, is_preset
from driftline.campaign.check.annotation import examined, sighting_of
from driftline.campaign.check.broken import without_broken
from driftline.campaign.check.solving import symbolic_samples
from driftline.campaign.check.specials import NO_SPECIALS, with_specials
from driftline.campaign.check.target_settings import with_needed_settings
from driftline.causes import Library, builtin
from driftline.checking.aspects import USUAL, Extent
from driftline.checking.checker import Checker, CheckOutcome, Skipped, TargetResult, whole_time
from driftline.checking.compile_times import slow_compilations
from driftline.checking.deployed import fitting
from driftline.checking.disagreements import disagreements
from driftline.checking.draws import with_own_generators
from driftline.checking.lift import MOST_WEIGHTS, cannot_be_lifted, check_lifted
from driftline.checking.open import LoadedProgram
from driftline.checking.pace import expected, note_durations
from driftline.checking.precision import reviewed
from driftline.checking.repeated import SeenIn
from driftline.checking.result import CheckResult
from driftline.checking.settings import require_settings
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import BackendUnavailable, DriftlineError, UnfitTarget
from driftline.core.identity import identify
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.tensors import is_float
from driftline.core.text import did_you_mean
from driftline.core.titles import KEY
from driftline.core.verdict import Fingerprint, Judgement, Status
from driftline.events import BugSeen, CheckStarted, Listener, TargetDone, TargetStarted, ignore
from driftline.execute.environments import find_environment, require_environment
from driftline.execute.pool import if_time
from driftline.execute.time_left import within
from driftline.inputs.files import read_inputs
from driftline.inputs.make import STRATEGIES, InputMaker
from driftline.inputs.room import room_for_inputs
from driftline.inputs.sizes import NOT_GIVEN, Sizes
from driftline.inputs.told import about_failure, about_inputs
from driftline.oracle.choice import parse_oracle
from driftline.oracle.judge import Reference
from driftline.programs.convert import accepts_directly, find_converter
from driftline.programs.operators import operators_of
from driftline.report.title_facts import facts_of
from driftline.store import Bug, Store
from driftline.store.checks import CheckLog

MOST_LIFTED_SECONDS = 600.0  # a check that took longer is done again in float32 only if it is asked for
ARTIFACT_ELEMENTS = 4096  # larger tensors are not stored: a replay computes them again


def choose_targets(program: Program, wanted: Sequence[Target] | None) -> tuple[list[Target], list[Skipped]]:
    """Return the targets to run and the skipped ones: the targets asked for by name, and those of a preset that accept
    the program.

    Asking by name for a backend that is not installed is an error; one in a preset is skipped with a reason.
    """
    chosen: dict[Target, None] = {}
    skipped: dict[Target, Skipped] = {}
    for target in wanted if wanted is not None else [Target(DEFAULT)]:
        if is_preset(target):
            found, missing = _in_preset(program, target.backend)
            chosen |= dict.fromkeys(found)
            skipped |= {one.target: one for one in missing}
        else:
            require_target(target)
            _require_form(program, target)
            chosen[target] = None
    return list(chosen), list(skipped.values())


def _in_preset(program: Program, preset: str) -> tuple[list[Target], list[Skipped]]:
    chosen: list[Target] = []
    skipped: list[Skipped] = []
    for target, backend in each_backend():
        if not holds(preset, target.backend) and not isinstance(backend, Skipped):
            continue
        if isinstance(backend, Skipped):
            skipped.append(backend)
            continue
        found = backend.installed()
        converter = find_converter(program.form, program.framework, backend.accepts)
        if not accepts_directly(program.form, program.framework, backend.accepts) and converter is None:
            continue
        if not found.available:
            skipped.append(Skipped(target, f"{found.reason}; {backend.install_command}"))
        elif converter and converter.environment and not find_environment([converter.environment], None):
            skipped.append(Skipped(target, f"needs {converter.name}: driftline env add {converter.requirement}"))
        else:
            chosen.append(target)
    return chosen, skipped


def _spent(result: TargetResult) -> tuple[float, float]:
    """Return the seconds of a finished run, and of the conversion before it."""
    durations = result.execution.durations
    return durations.get("total", 0.0), durations.get("convert", 0.0)


def each_backend() -> Iterator[tuple[Target, Backend | Skipped]]:
    """Yield every registered backend; a plug-in that cannot be loaded gives a Skipped with its error message."""
    for name in BACKENDS:
        target = Target.parse(name)
        try:
            yield target, BACKENDS.get(name)
        except DriftlineError as error:
            yield target, Skipped(target, str(error))


_FORMS = {
    "source:torch": "torch programs",
    "torch": "torch programs",
    "onnx": "ONNX models",
    "tflite": "TFLite models",
    "source:tensorflow": "TensorFlow programs",
    "source:jax": "JAX programs",
}


def fitting_targets(program: Program, usual: Sequence[Target]) -> tuple[list[Target], list[Skipped]]:
    """Return the targets of a project's settings that accept the program, and the others as skipped. Asking for one of
    the others by name would be an error."""
    fit: list[Target] = []
    skipped: list[Skipped] = []
    for target in usual:
        try:
            if not is_preset(target):
                _require_form(program, target)
            fit.append(target)
        except DriftlineError:
            skipped.append(Skipped(target, f"cannot take {program.name}"))
    return fit, skipped


def _require_form(program: Program, target: Target) -> None:
    """Raise UnfitTarget if the target cannot accept the program, even after a conversion."""
    accepts = resolve(target).accepts
    if accepts_directly(program.form, program.framework, accepts):
        return
    if find_converter(program.form, program.framework, accepts) is None:
        takes = ", ".join(dict.fromkeys(_FORMS.get(form, form) for form in accepts))
        raise UnfitTarget(
            f"{target} takes {takes}; {program.name} is none of these."
            " Leave --targets out to run every backend that can take it."
        )


def require_target(target: Target) -> None:
    """Raise DriftlineError unless the target (or preset) exists with its options and, if it names a release, its
    environment."""
    if is_preset(target):
        return
    if target.backend not in BACKENDS and (near := did_you_mean(target.backend, PRESETS)):
        raise DriftlineError(f"Unknown target {target.backend!r}.{near} Presets are {', '.join(PRESETS)}.")
    backend = resolve(target)
    if target.version:
        require_environment(backend.packages, target.version)
        return
    found = backend.installed()
    if not found.available:
        raise BackendUnavailable(
            f"The backend {target.backend!r} is not available: {found.reason}."
            f" Install it with: {backend.install_command}"
        )


def check_strategy(strategy: str) -> None:
    """Raise DriftlineError unless `strategy` is a known strategy or a file."""
    if strategy not in STRATEGIES and Path(strategy).is_dir():
        raise DriftlineError(f"--inputs {strategy}: it is a folder; name an .npz file.")
    if strategy not in STRATEGIES and not Path(strategy).is_file():
        hint = did_you_mean(strategy, STRATEGIES)
        raise DriftlineError(
            f"--inputs {strategy}: there is no such file.{hint} Give an .npz file, or one of: {', '.join(STRATEGIES)}."
        )


def make_samples(maker: InputMaker, strategy: str, count: int, seed: int) -> tuple[Inputs, ...]:
    """Return input samples by strategy: `example`, `random`, or a file. `specials` need the reference
    (`specials.py`)."""
    if strategy not in STRATEGIES:
        if maker.sizes:
            raise DriftlineError(
                f"--dim and --shape say how large inputs to make; those of {strategy} are made already."
            )
        return (read_inputs(Path(strategy), maker.specs, maker.room),)
    first: tuple[Inputs, ...] = ()
    if strategy == "example" and not maker.sizes and (maker.example or not maker.specs):
        first = (Inputs(maker.example, "example"),)
    count = max(count, maker.sizes.count)
    return (*first, *(maker.random(seed + i, i) for i in range(count - len(first))))


def maker_of(opened: LoadedProgram, options: CheckOptions, sizes: Sizes = NOT_GIVEN) -> InputMaker:
    room = room_for_inputs(options.memory_limit)
    return InputMaker(opened.program.inputs, opened.example, opened.known, sizes, room)


def _notes(opened: LoadedProgram, case: Case, reference: Reference, sizes: Sizes) -> tuple[str, ...]:
    """Return notes for the user about generated inputs; none if all inputs were given."""
    if not any(sample.origin.startswith(("random", "specials")) for sample in case.samples):
        return ()
    maker = maker_of(opened, case.options, sizes)
    raised = next((sample.failure for sample in reference.samples if sample.failure), None)
    told = about_failure(maker, f"{raised.type}: {raised.message}") if raised else ""
    return (*about_inputs(maker), *([told] if told else []))


def _witness_note(case: Case, reference: Reference) -> tuple[str, ...]:
    """Return a note that names the reference of an ONNX model, which has two."""
    if case.program.framework != "onnx" or not reference.by:
        return ()
    return (f"The reference is {reference.by}.",)


def draw_case(
    checker: Checker,
    opened: LoadedProgram,
    targets: Sequence[Target],
    options: CheckOptions,
    inputs: str,
    samples: int,
    sizes: Sizes = NOT_GIVEN,
) -> tuple[Case, Reference]:
    """Return the case with its input samples, and the reference results on them."""
    maker = maker_of(opened, options, sizes)
    case = Case(opened.program, (), tuple(targets), options, opened.deployed)
    if inputs == "specials":
        return with_specials(checker, case, maker, max(samples, sizes.count))
    if inputs == "symbolic":
        drawn = symbolic_samples(checker.pool, opened, maker, options, samples)
    else:
        drawn = make_samples(maker, inputs, samples, options.seed)
    case = replace(case, samples=drawn)
    if opened.deployed:
        case = replace(case, samples=fitting(opened.deployed, case.samples))
    return case, checker.reference(case)


def check_program(
    checker: Checker,
    store: Store,
    opened: LoadedProgram,
    *,
    targets: Sequence[Target] | None = None,
    inputs: str = "example",
    samples: int = 1,
    sizes: Sizes = NOT_GIVEN,
    options: CheckOptions,
    lifted: bool | None = None,
    keep_reduced: bool = False,
    library: Library | None = None,
    listener: Listener = ignore,
    extent: Extent = USUAL,
) -> CheckResult:
    """Check one program on many targets and store the failures; with `keep_reduced` also results that agree only at
    reduced precision. `lifted`: also check a half-precision program in float32 (None: if that is affordable). `extent`:
    what is compared besides the first call; gradients only if the program asks for them."""
    chosen, skipped = choose_targets(opened.runs, targets)
    require_settings(checker.pool, chosen, options.plugins)
    listener(CheckStarted(tuple(chosen)))
    with within(whole_time(options, len(chosen))):
        case, reference = draw_case(checker, opened, chosen, options, inputs, samples, sizes)
        if reference.random and extent.calls > 1:
            case = replace(case, targets=with_own_generators(chosen))
            listener(CheckStarted(case.targets))

        def progress(target: Target, row: TargetResult | Skipped | None) -> None:
            if row is None:
                listener(TargetStarted(target, expected(target, opened.program)))
            else:
                listener(TargetDone(target, row))

        extent = replace(extent, gradient=extent.gradient and opened.trained)
        outcome = checker.check(case, progress, reference, partial(reviewed, checker), extent=extent)
        outcome = if_time(partial(without_broken, checker, outcome), outcome)
        note_durations(case.program, ((r.target, sum(_spent(r))) for r in outcome.results))
        CheckLog(store).keep(
            case.runs, [(str(r.target), r.execution.version, str(r.verdict.judgement)) for r in outcome.results]
        )
        kept = [r for r in outcome.results if keep_reduced or r.verdict.judgement is not Judgement.REDUCED]
        bugs = keep_failures(checker, store, replace(outcome, results=tuple(kept)), library, listener)
        notes = [*opened.notes, *_notes(opened, case, reference, sizes), *_witness_note(case, reference)]
        why = cannot_be_lifted(opened.program, reference)
        if not why and (_is_lifted(outcome) if lifted is None else lifted):
            notes += if_time(partial(check_lifted, checker, outcome), [])
        elif lifted and why:
            notes.append(f"--lift changed nothing: {why}")
    if opened.without:
        outcome = replace(outcome, results=tuple(_judged_without(row, opened) for row in outcome.results))
    if inputs == "specials" and not any(is_float(spec.dtype) for spec in opened.program.inputs):
        notes.append(NO_SPECIALS)
    notes += slow_compilations(outcome)
    apart = disagreements(outcome)
    outcome = replace(outcome, skipped=(*skipped, *outcome.skipped))
    return CheckResult(outcome, bugs, store.path, (*notes, *map(str, apart)), apart)


def keep_failures(
    checker: Checker, store: Store, outcome: CheckOutcome, library: Library | None = None, listener: Listener = ignore
) -> dict[Target, Bug]:
    """Store the failures of a check; return the bugs by target."""
    known = builtin() if library is None else library
    found = {
        result.target: _recorded(checker, store, seen.case, result, seen.reference, known, listener)
        for result in outcome.results
        for seen in [result.seen_in or SeenIn(outcome.case, outcome.reference)]
    }
    return {target: bug for target, bug in found.items() if bug}


def _recorded(
    checker: Checker,
    store: Store,
    case: Case,
    result: TargetResult,
    reference: Reference,
    library: Library,
    listener: Listener,
) -> Bug | None:
    """Store a failure with the experiments that the causes ask for, and report it to the listener."""
    if result.verdict.judgement not in (Judgement.FAIL, Judgement.REDUCED):
        return None
    case, result = at_fault(case, result)
    case = if_time(partial(with_needed_settings, checker, case, result, reference), case)
    seen = if_time(partial(examined, checker, case, result, library), sighting_of(case, result))
    more = {"sighting": seen.facts()}
    return _announced(store, case, result, reference, listener, more)


def _announced(
    store: Store,
    case: Case,
    result: TargetResult,
    reference: Reference,
    listener: Listener,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Bug | None:
    """Store a failure, and report to the listener whether its bug is new."""
    new = not store.has_bug(fingerprint(case, result).bug_id)
    bug = record(store, case, result, reference, more)
    if bug:
        listener(BugSeen(bug, new))
    return bug


def _judged_without(row: TargetResult, opened: LoadedProgram) -> TargetResult:
    """Return the row of a model from which operators were removed, with a reason that says so. It passes only if some
    output does not depend on these operators: nothing is known of the others."""
    verdict = row.verdict
    known, outputs = opened.judgeable
    told = f"without {opened.without}: "
    if verdict.judgement in (Judgement.PASS, Judgement.REDUCED):
        told += f"judged {len(known)} of {len(outputs)} outputs"
        if not known:
            told += ", since all depend on what these operators return; what they are fed "
            return replace(
                row, verdict=replace(verdict, judgement=Judgement.INCONCLUSIVE, reason=told + verdict.reason)
            )
        told += f" ({', '.join(known)}): "
    return replace(row, verdict=replace(verdict, reason=f"{told}{verdict.reason}"))


def _is_lifted(outcome: CheckOutcome) -> bool:
    """True if a half-precision check is repeated in float32 without being asked for: only if the rule judged it, and
    the program and its check are small. A float32 check takes about as long again and twice the memory."""
    case = outcome.case
    seconds = sum(sum(_spent(row)) for row in outcome.results)
    return (
        case.deployed is None
        and parse_oracle(case.options.oracle) is None
        and case.program.weights <= MOST_WEIGHTS
        and seconds <= MOST_LIFTED_SECONDS
    )


def at_fault(case: Case, result: TargetResult) -> tuple[Case, TargetResult]:
    """Return the case and the row by which a failure is recorded: those of the culprit kernel if there is one."""
    return (case.only(result.culprit.target), result.culprit) if result.culprit else (case, result)


def fingerprint(case: Case, result: TargetResult) -> Fingerprint:
    """Return the fingerprint of the bug that a failing row shows."""
    case, result = at_fault(case, result)
    program = case.runs
    return identify(program, operators_of(program), result.target, result.execution, result.verdict, result.blame)


def record(
    store: Store,
    case: Case,
    result: TargetResult,
    reference: Reference | None = None,
    more: Mapping[str, Any] = MappingProxyType({}),
    *,
    again: bool = False,
) -> Bug | None:
    """Store a failure with the expected and actual results and return its bug; None for other verdicts. `again`: keep
    what was stored about the same case before."""
    if result.verdict.judgement not in (Judgement.FAIL, Judgement.REDUCED):
        return None
    case, result = at_fault(case, result)
    verdict = {
        **verdict_json(result),
        "sighting": sighting_of(case, result).facts(),
        **more,
        KEY: facts_of(case, result.verdict.evidence).to_json(),
        "artifacts": _artifacts(store, result, reference),
    }
    return store.add_finding(
        fingerprint(case, result),
        case,
        result.target,
        summary=result.verdict.reason,
        status=Status.FLAKY if result.flaky else Status.NEW,
        verdict=verdict,
        keep=again,
        execution={**result.execution.summary(), "log": result.execution.log},
    )


def _artifacts(store: Store, result: TargetResult, reference: Reference | None) -> dict[str, str]:
    """Store the expected and actual outputs of the failing sample, if they are small; return their digests."""
    index = result.verdict.evidence.sample or 0
    outputs = result.execution.outputs
    if reference is None or index >= len(outputs) or index >= len(reference.samples):
        return {}
    sides = {"expected": reference.samples[index].native, "got": outputs[index]}
    if not all(sides.values()) or any(a.size > ARTIFACT_ELEMENTS for side in sides.values() for a in side.values()):
        return {}
    return {name: store.put_tensors(arrays) for name, arrays in sides.items()}


def verdict_json(result: TargetResult) -> dict[str, Any]:
    """Return the JSON form of a verdict."""
    verdict = result.verdict
    return {
        "verdict": str(verdict.judgement),
        "kind": str(verdict.kind) if verdict.kind else None,
        "reason": verdict.reason,
        "evidence": verdict.evidence.to_json(),
        "failed_runs": list(result.failed_runs),
        "blame": result.blame,
    }
