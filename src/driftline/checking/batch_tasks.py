"""Tasks of a framework's worker that make many programs with their inputs, and judge their results.

The judgement is the same as that of `check`, with the shadow in the same process. A failure here is only a suspect: it
is checked again by itself, in the ordinary way, before it is reported.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftline.checking.batch_requests import (
    ARMS,
    JUDGE_MANY,
    PREPARE,
    ArmsAnswer,
    ArmsRequest,
    InvalidProgram,
    JudgedPrograms,
    JudgeItem,
    JudgeRequest,
    NothingMade,
    Prepared,
    PreparedBatch,
    PreparedProgram,
    PrepareRequest,
    ProgramRequest,
    ProgramVerdict,
    SampleVerdict,
)
from driftline.core.evidence import NOTHING
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.full_disk import no_room
from driftline.core.plugins import load_plugins
from driftline.core.program import Program, SourceBundle
from driftline.core.registry import import_string
from driftline.core.task import Context
from driftline.core.tensors import Arrays, TensorSpec, is_float
from driftline.core.text import first_line
from driftline.core.verdict import Judgement, Verdict
from driftline.execute import sandbox
from driftline.execute.requests import TENSORS
from driftline.execute.shelf import Shelf, load_from, load_samples
from driftline.generate import GENERATORS
from driftline.generate.base import Blueprint, GeneratorRequest, NoProgram
from driftline.generate.blueprint import blueprint
from driftline.generate.features import depends_on_memory, features_of, pairs_of
from driftline.generate.graph import value_name
from driftline.generate.model_blueprint import blueprint_of_model, blueprint_of_text
from driftline.inputs.plan import InputPlan
from driftline.inputs.strategies import INPUTS
from driftline.oracle.arithmetic import declared
from driftline.oracle.judge import NoShadow, Reference, ReferenceSample, TargetTraits, judge
from driftline.oracle.policies import explained_by, is_of_precision, plausible, program_uses
from driftline.oracle.reference import REFERENCES, measure_spread, measure_storage
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.shadow.local import LocalShadow
from driftline.oracle.shadow.task import FRONT_ENDS
from driftline.programs.onnx.file import model_from
from driftline.programs.onnx.valid import fault_at_opset
from driftline.programs.opened import OpenedProgram
from driftline.programs.source import live_from_source

ENTRY = "program.py"
_REDRAWS = 2


@ARMS.serve
def arms(request: ArmsRequest, context: Context) -> ArmsAnswer:
    """Return the arms of each generator for this form, and the missing package of each generator that needs one."""
    load_plugins(request.plugins)
    form = request.form
    found, missing = {}, {}
    for name in request.generators:
        generator = GENERATORS.get(name)
        if form not in generator.forms:
            continue
        try:
            found[name] = tuple(generator.arms(form))
        except ModuleNotFoundError as error:
            if not error.name or error.name.partition(".")[0] == "driftline":
                raise  # a fault of Driftline
            missing[name] = error.name
    return ArmsAnswer(found, missing)


# -- making ----------------------------------------------------------------------------------------------------------


@PREPARE.serve
def prepare(request: PrepareRequest, context: Context) -> PreparedBatch:
    """Make the requested programs, draw their inputs and run their reference."""
    load_plugins(request.plugins)
    programs: list[Prepared] = []
    if any(item.text for item in request.requests):
        # Before a model's text runs, in a process that runs nothing else: it must not write to the caches of compilers
        # or to the folders of other jobs either.
        sandbox.enter([request.folder, tempfile.gettempdir()])
    with Shelf(request.folder / TENSORS) as shelf:
        for number, item in enumerate(request.requests):
            context.lap()
            began = time.monotonic()
            made = _prepare_one(item, request, request.folder / f"{number}.program", shelf)
            if not isinstance(made, NothingMade):
                made = replace(made, seconds=time.monotonic() - began)
            programs.append(made)
    return PreparedBatch(tuple(programs))


def _prepare_one(item: ProgramRequest, batch: PrepareRequest, path: Path, shelf: Shelf) -> Prepared:
    try:
        made = _make(item, batch)
        _require_valid(made)
        program = write_program(made, path, f"{item.generator}:{item.arm}#{item.number}")
    except NoProgram as reason:
        return NothingMade(str(reason), reason.name)
    except Exception as error:  # a fault of a generator costs this program, not the batch
        if no_room(error):
            raise
        told = f"the generator failed: {type(error).__name__}: {first_line(str(error), 150)}"
        return InvalidProgram(told, internal_error=traceback.format_exc())
    coverage = tuple((operator, dtype) for operator, dtype in made.coverage)
    try:
        opened = OpenedProgram(program, example={}, grad=made.grad)
        reference = import_string(REFERENCES[program.framework])(opened)
        drawn = [_sample(made, opened, reference, item, index) for index in range(len(item.strategies))]
    except Exception as error:
        if no_room(error):
            raise
        return InvalidProgram(f"{type(error).__name__}: {first_line(str(error), 200)}", coverage)
    return PreparedProgram(
        program,
        tensors=shelf.put_samples([arrays for arrays, _, _ in drawn]),
        native=shelf.put_samples([outputs for _, outputs, _ in drawn]),
        origins=tuple(origin for _, _, origin in drawn),
        grad=made.grad,
        company="gradients" if made.grad else "several sizes" if made.sizes else "plain",
        coverage=coverage,
        graph_text=made.graph.to_text() if made.graph else "",
        pairs=pairs_of(made),
        by_memory=bool(made.graph and depends_on_memory(made.graph)),
        authored=bool(item.text) and made.graph is None,
        features=features_of(made),
    )


def _make(item: ProgramRequest, batch: PrepareRequest) -> Blueprint:
    if item.graph:  # exists already: a part of another program
        return blueprint(item.graph, batch.form)
    if item.model and batch.form == "onnx":  # exists already
        import onnx

        return replace(blueprint_of_model(onnx.load_model(item.model)), coverage=item.coverage)
    if item.model:
        bundle = SourceBundle.load(Path(item.model).read_bytes())
        example = live_from_source(bundle, "", batch.seed).example_arrays()
        return blueprint_of_text(bundle.text, batch.form, example, item.coverage)
    request = GeneratorRequest(
        batch.form, item.arm, item.number, batch.seed, frozenset(item.avoid), item.base, item.text, item.mode, item.copy
    )
    made = GENERATORS.get(item.generator).make(request)
    if made.sizes and made.graph and not batch.sizes:
        return blueprint(replace(made.graph, varying=0), batch.form)
    return made


def _require_valid(made: Blueprint) -> None:
    """Raise NoProgram for an ONNX model that is not valid at its opset: the compilers' behaviour on it proves
    nothing."""
    if isinstance(made.content, bytes) and (fault := fault_at_opset(model_from(made.content))):
        raise NoProgram(fault)


def write_program(made: Blueprint, path: Path, name: str) -> Program:
    """Write a generated program to `path` and return it as a `Program`."""
    if isinstance(made.content, bytes):
        form, framework, data = "onnx", "onnx", made.content
    else:
        form, framework = "source", made.form
        data = SourceBundle(ENTRY, "program", {ENTRY: made.content}).dump()
    path.write_bytes(data)
    return Program(
        form=form,
        framework=framework,
        digest=hashlib.sha256(data).hexdigest(),
        path=path,
        name=name,
        inputs=tuple(plan.spec for plan in made.inputs),
        outputs=_output_names(data) if form == "onnx" else (),
        operators=made.operators,
    )


def _output_names(data: bytes) -> tuple[str, ...]:
    import onnx

    return tuple(output.name for output in onnx.load_model_from_string(data).graph.output)


def _sample(
    made: Blueprint, opened: OpenedProgram, reference: Any, item: ProgramRequest, index: int
) -> tuple[Arrays, Arrays, str]:
    """Return inputs, the reference's results, and their origin. If the results are all NaN, the inputs are drawn
    again."""
    if item.inputs or item.values:
        arrays = _given(made, item, index)
        return arrays, reference.native(arrays), item.strategies[index]
    plans = _plans(made, index)
    for attempt in range(_REDRAWS + 1):
        strategy = INPUTS.get(item.strategies[index] if attempt < _REDRAWS else "random")
        inputs = strategy.draw(plans, f"{item.seed}/{index}/{attempt}", made.edges, opened.program)
        arrays = _settled(opened, inputs.arrays)
        outputs: Arrays = reference.native(arrays)
        if not _blank(outputs):
            break
    return arrays, outputs, inputs.origin


def _given(made: Blueprint, item: ProgramRequest, index: int) -> Arrays:
    """Return existing inputs: from a file, or the values of the whole program, for a part of it."""
    if item.inputs:
        return load_samples(item.inputs)[index]
    assert made.graph
    values = load_samples(item.values)[index]
    return {value_name(made.graph, leaf): values[str(item.sources[leaf])] for leaf in made.graph.inputs}


def _plans(made: Blueprint, index: int) -> Sequence[InputPlan]:
    """Return the inputs to fill. Every other sample of a program with several sizes has another size."""
    shapes = [{}, *made.sizes][index % (1 + len(made.sizes))]
    return [
        replace(plan, spec=TensorSpec(plan.spec.name, plan.spec.dtype, tuple(shapes[plan.spec.name])))
        if plan.spec.name in shapes
        else plan
        for plan in made.inputs
    ]


def _settled(opened: OpenedProgram, arrays: Arrays) -> Arrays:
    """Return the inputs as they are in memory: where inputs overlap, they hold the value written last."""
    if opened.framework != "torch":
        return arrays
    from driftline.programs.layout import InputLayout

    layout = InputLayout.of(opened.live)
    return layout.settled(arrays) if layout else arrays


def _blank(outputs: Arrays) -> bool:
    floats = [array for array in outputs.values() if is_float(array.dtype.name) and array.size]
    return bool(floats) and len(floats) == len(outputs) and all(np.isnan(array).all() for array in floats)


# -- judging ---------------------------------------------------------------------------------------------------------


@JUDGE_MANY.serve
def judge_many(request: JudgeRequest, context: Context) -> JudgedPrograms:
    """Judge each program that ran."""
    load_plugins(request.plugins)
    trait = TargetTraits(calls_user_code=request.mutates, positional=request.renames, arithmetic=request.arithmetic)
    verdicts = []
    for item in request.items:
        context.lap()
        began = time.monotonic()
        verdict = _judge_safely(item, trait, request)
        verdicts.append(replace(verdict, seconds=time.monotonic() - began))
    return JudgedPrograms(tuple(verdicts))


def _judge_safely(item: JudgeItem, trait: TargetTraits, batch: JudgeRequest) -> ProgramVerdict:
    """Judge one program. A fault of Driftline gives an inconclusive verdict with its traceback, and the others are
    judged."""
    try:
        return _judge_one(item, trait, batch)
    except Exception as error:
        if no_room(error):
            raise
        told = f"the judgement failed: {type(error).__name__}: {first_line(str(error), 150)}"
        verdict = _told(Verdict(Judgement.INCONCLUSIVE, told))
        return ProgramVerdict(verdict, internal_error=f"{item.program.name}: {traceback.format_exc()}")


def _judge_one(item: JudgeItem, trait: TargetTraits, batch: JudgeRequest) -> ProgramVerdict:
    inputs, natives = load_samples(item.tensors), load_samples(item.native)
    verdicts: list[Verdict] = []
    for arrays, native, place in zip(inputs, natives, item.outputs, strict=True):
        got = load_from(place)
        opened = OpenedProgram(item.program, example=arrays, grad=item.grad)
        verdicts.append(judge_sample(opened, arrays, native, got, trait, batch))
        if verdicts[-1].judgement is Judgement.FAIL and not item.each:
            break
    failed = next((index for index, v in enumerate(verdicts) if v.judgement is Judgement.FAIL), None)
    each = tuple(map(_told, verdicts)) if item.each else ()
    if failed is not None:
        return ProgramVerdict(_told(verdicts[failed]), failed, each)
    return ProgramVerdict(_told(next((v for v in verdicts if v.judgement is Judgement.PASS), verdicts[0])), each=each)


def judge_sample(
    opened: OpenedProgram, arrays: Arrays, native: Arrays, got: Arrays, trait: TargetTraits, batch: JudgeRequest
) -> Verdict:
    """Judge the outputs of a program on one sample."""
    if got.keys() == native.keys() and all(_same_bits(got[name], value) for name, value in native.items()):
        if _blank(native):
            return Verdict(Judgement.INCONCLUSIVE, "the reference is NaN everywhere: there is nothing to compare")
        return Verdict(Judgement.PASS, "equal to the reference")
    if opened.framework not in FRONT_ENDS:
        return judge(_finished(got), Reference((_spread_sample(opened, arrays, native, trait),)), trait)
    shadow = LocalShadow(opened, arrays)
    try:
        exact = shadow.exact()
    except NoExactReference as reason:
        return Verdict(Judgement.INCONCLUSIVE, f"no exact reference: {first_line(str(reason), 150)}")
    sample = ReferenceSample(native=native, exact=exact, shadow=shadow.ask, sparing=True, inputs=arrays)
    execution, reference = _finished(got), Reference((sample,), random=shadow.draws)
    verdict = judge(execution, reference, trait)
    return _explained(verdict, execution, reference, trait, batch.on_gpu) if batch.explain else verdict


def _explained(
    verdict: Verdict, execution: Execution, reference: Reference, trait: TargetTraits, on_gpu: bool
) -> Verdict:
    """Return the verdict on a failure with the less precise arithmetic under which it would be right. It stays a
    failure: the examination of the suspect decides what to call it."""
    if not is_of_precision(verdict, trait):
        return verdict
    try:
        uses = program_uses(reference, trait.arithmetic)
        candidates = plausible(uses, reference, trait.arithmetic, on_gpu=on_gpu)
        policies = explained_by(verdict, execution, reference, trait, candidates)
    except NoShadow:
        return verdict
    return replace(verdict, evidence=replace(verdict.evidence, policies=policies))


def _finished(outputs: Arrays) -> Execution:
    return Execution("", Outcome.OK, Stage.RUN, outputs=(outputs,))


def _spread_sample(opened: OpenedProgram, arrays: Arrays, native: Arrays, trait: TargetTraits) -> ReferenceSample:
    """Return the reference sample for a framework whose graphs have no shadow."""
    reference = import_string(REFERENCES[opened.framework])(opened)
    exact, spread, note = measure_spread(reference, arrays, native)
    storage = declared(trait.arithmetic).storage
    moved = measure_storage(reference, arrays, storage) if storage else None
    stored = {storage: moved} if moved is not None else {}
    return ReferenceSample(native=native, exact=exact, spread=spread, note=note, inputs=arrays, stored=stored)


def _same_bits(got: Any, native: Any) -> bool:
    return got.dtype == native.dtype and got.shape == native.shape and got.tobytes() == native.tobytes()


def _told(verdict: Verdict) -> SampleVerdict:
    return SampleVerdict(
        judgement=str(verdict.judgement),
        reason=verdict.reason,
        kind=str(verdict.kind) if verdict.kind else "",
        z=verdict.evidence.z or 0.0,
        evidence=replace(verdict.evidence, totals={}) if verdict.kind else NOTHING,
    )
