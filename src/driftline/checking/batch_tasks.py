"""Many programs at once, inside a worker of their framework: make them with their inputs, and judge what came of them.

The judgement is the one that `check` makes, with the shadow at hand in the same process. What fails here is only a
suspect: it is checked again by itself, in the ordinary way, before anybody is told.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftline.core.evidence import evidence_class
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.plugins import load_plugins
from driftline.core.program import Program, SourceBundle
from driftline.core.registry import import_string
from driftline.core.tensors import Arrays, TensorSpec, is_float
from driftline.core.text import first_line
from driftline.core.verdict import Judgement, Verdict
from driftline.execute.shelf import Shelf, load_from, load_samples
from driftline.execute.tasks import TENSORS
from driftline.execute.worker import Context
from driftline.generate import GENERATORS
from driftline.generate.base import Blueprint, NoProgram, Request
from driftline.generate.blueprint import blueprint
from driftline.generate.graph import Graph, value_name
from driftline.inputs.plan import InputPlan
from driftline.inputs.strategies import INPUTS
from driftline.oracle.arithmetic import declared
from driftline.oracle.judge import NoShadow, Reference, ReferenceSample, Trait, judge
from driftline.oracle.reference import REFERENCES, measure_spread
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.rule import ShadowAnswer
from driftline.oracle.shadow.player import Player
from driftline.oracle.shadow.task import FRONT_ENDS
from driftline.programs.opened import OpenedProgram

ENTRY = "program.py"
_REDRAWS = 2


def arms(payload: dict[str, Any], context: object) -> dict[str, Any]:
    """What each generator can be asked for in this form, and which package one needs that is not installed."""
    load_plugins(payload["plugins"])
    form = payload["form"]
    found, missing = {}, {}
    for name in payload["generators"]:
        generator = GENERATORS.get(name)
        if form not in generator.forms:
            continue
        try:
            found[name] = list(generator.arms(form))
        except ModuleNotFoundError as error:
            if not error.name or error.name.partition(".")[0] == "driftline":
                raise  # a fault of ours
            missing[name] = error.name
    return {"arms": found, "missing": missing}


# -- making ----------------------------------------------------------------------------------------------------------


def prepare(payload: dict[str, Any], context: Context) -> dict[str, Any]:
    """Make the programs that are asked for, draw their inputs and run their reference. One answer for each request:
    either `invalid` with the reason, or the program and where its inputs and reference results are."""
    load_plugins(payload["plugins"])
    folder = Path(payload["folder"])
    programs = []
    with Shelf(folder / TENSORS) as shelf:
        for number, item in enumerate(payload["requests"]):
            context.lap()
            programs.append(_prepare_one(item, payload, folder / f"{number}.program", shelf))
    return {"programs": programs}


def _prepare_one(item: Mapping[str, Any], payload: Mapping[str, Any], path: Path, shelf: Shelf) -> dict[str, Any]:
    try:
        made = _make(item, payload)
        program = write_program(made, path, f"{item['generator']}:{item['arm']}#{item['number']}")
    except NoProgram as reason:
        return {"nothing": str(reason)}
    except Exception as error:  # a generator's fault costs this program, not the batch
        told = f"the generator failed: {type(error).__name__}: {first_line(str(error), 150)}"
        return {"invalid": told, "internal_error": traceback.format_exc()}
    answer: dict[str, Any] = {
        "program": program.to_json(),
        "path": str(path),
        "grad": made.grad,
        "coverage": [list(pair) for pair in made.coverage],
        "graph": made.graph.to_json() if made.graph else None,
        "company": "gradients" if made.grad else "several sizes" if made.sizes else "plain",
    }
    try:
        opened = OpenedProgram(program, example={}, grad=made.grad)
        reference = import_string(REFERENCES[program.framework])(opened)
        drawn = [_sample(made, opened, reference, item, index) for index in range(len(item["strategies"]))]
    except Exception as error:
        return {**answer, "invalid": f"{type(error).__name__}: {first_line(str(error), 200)}"}
    return {
        **answer,
        "tensors": shelf.put_samples([arrays for arrays, _, _ in drawn]),
        "native": shelf.put_samples([outputs for _, outputs, _ in drawn]),
        "origins": [origin for _, _, origin in drawn],
    }


def _make(item: Mapping[str, Any], payload: Mapping[str, Any]) -> Blueprint:
    if item.get("graph"):  # made already: a part of another program
        return blueprint(Graph.from_json(item["graph"]), payload["form"])
    base = Graph.from_json(item["base"]) if item.get("base") else None
    avoid = frozenset(item.get("avoid", ()))
    request = Request(payload["form"], item["arm"], item["number"], payload["seed"], avoid, base)
    made = GENERATORS.get(item["generator"]).make(request)
    if made.sizes and made.graph and not payload["sizes"]:
        return blueprint(replace(made.graph, varying=0), payload["form"])
    return made


def write_program(made: Blueprint, path: Path, name: str) -> Program:
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
    made: Blueprint, opened: OpenedProgram, reference: Any, item: Mapping[str, Any], index: int
) -> tuple[Arrays, Arrays, str]:
    """Inputs and what the program makes of them. A result of nothing but NaN tells nothing: then draw again."""
    if item.get("inputs") or item.get("values"):
        arrays = _given(made, item, index)
        return arrays, reference.native(arrays), item["strategies"][index]
    plans = _plans(made, index)
    for attempt in range(_REDRAWS + 1):
        strategy = INPUTS.get(item["strategies"][index] if attempt < _REDRAWS else "random")
        inputs = strategy.draw(plans, f"{item['seed']}/{index}/{attempt}", made.edges, opened.program)
        arrays = _settled(opened, inputs.arrays)
        outputs: Arrays = reference.native(arrays)
        if not _blank(outputs):
            break
    return arrays, outputs, inputs.origin


def _given(made: Blueprint, item: Mapping[str, Any], index: int) -> Arrays:
    """Inputs that are there already: from a file, or the values that a whole program had where this is a part of it."""
    if item.get("inputs"):
        return load_samples(item["inputs"])[index]
    assert made.graph
    values = load_samples(item["values"])[0]
    return {value_name(made.graph, leaf): values[str(item["sources"][leaf])] for leaf in made.graph.inputs}


def _plans(made: Blueprint, index: int) -> Sequence[InputPlan]:
    """The inputs to fill; every other sample of a program with several sizes has another one."""
    shapes = [{}, *made.sizes][index % (1 + len(made.sizes))]
    return [
        replace(plan, spec=TensorSpec(plan.spec.name, plan.spec.dtype, tuple(shapes[plan.spec.name])))
        if plan.spec.name in shapes
        else plan
        for plan in made.inputs
    ]


def _settled(opened: OpenedProgram, arrays: Arrays) -> Arrays:
    """Inputs that overlap in memory hold what was written last: every target is given the numbers as they are then."""
    if opened.framework != "torch":
        return arrays
    from driftline.programs.layout import InputLayout

    layout = InputLayout.of(opened.live)
    return layout.settled(arrays) if layout else arrays


def _blank(outputs: Arrays) -> bool:
    floats = [array for array in outputs.values() if is_float(array.dtype.name) and array.size]
    return bool(floats) and len(floats) == len(outputs) and all(np.isnan(array).all() for array in floats)


# -- judging ---------------------------------------------------------------------------------------------------------


def judge_many(payload: dict[str, Any], context: Context) -> dict[str, Any]:
    """A verdict for each program that ran."""
    load_plugins(payload["plugins"])
    trait = Trait(
        calls_user_code=payload["mutates"],
        positional=payload["renames"],
        arithmetic=payload["arithmetic"],
    )
    verdicts = []
    for item in payload["items"]:
        context.lap()
        verdicts.append(_judge_safely(item, trait))
    return {"verdicts": verdicts}


def _judge_safely(item: Mapping[str, Any], trait: Trait) -> dict[str, Any]:
    """A fault of ours on one program is told as such, and the others are judged."""
    try:
        return _judge_one(item, trait)
    except Exception as error:
        told = f"the judgement failed: {type(error).__name__}: {first_line(str(error), 150)}"
        answer = _json(Verdict(Judgement.INCONCLUSIVE, told))
        return {**answer, "internal_error": f"{item['program']['name']}: {traceback.format_exc()}"}


def _judge_one(item: Mapping[str, Any], trait: Trait) -> dict[str, Any]:
    inputs, natives = load_samples(item["tensors"]), load_samples(item["native"])
    program = Program.from_json(item["program"], Path(item["path"]))
    verdicts: list[Verdict] = []
    for arrays, native, place in zip(inputs, natives, item["outputs"], strict=True):
        got = load_from(place)
        opened = OpenedProgram(program, example=arrays, grad=item["grad"])
        verdicts.append(_judge_sample(opened, arrays, native, got, trait))
        if verdicts[-1].judgement is Judgement.FAIL and not item.get("each"):
            break
    failed = next((index for index, v in enumerate(verdicts) if v.judgement is Judgement.FAIL), None)
    if failed is not None:
        answer = {**_json(verdicts[failed]), "sample": failed}
    else:
        answer = _json(next((v for v in verdicts if v.judgement is Judgement.PASS), verdicts[0]))
    return {**answer, "each": list(map(_json, verdicts))} if item.get("each") else answer


def _judge_sample(opened: OpenedProgram, arrays: Arrays, native: Arrays, got: Arrays, trait: Trait) -> Verdict:
    if got.keys() == native.keys() and all(_same_bits(got[name], value) for name, value in native.items()):
        if _blank(native):
            return Verdict(Judgement.INCONCLUSIVE, "the reference is NaN everywhere: there is nothing to compare")
        return Verdict(Judgement.PASS, "equal to the reference")
    if opened.framework not in FRONT_ENDS:
        return judge(_finished(got), Reference((_spread_sample(opened, arrays, native),)), trait)
    shadow = _LocalShadow(opened, arrays)
    try:
        exact = shadow.exact()
    except NoExactReference as reason:
        return Verdict(Judgement.INCONCLUSIVE, f"no exact reference: {first_line(str(reason), 150)}")
    sample = ReferenceSample(native=native, exact=exact, shadow=shadow.ask, sparing=True, inputs=arrays)
    return judge(_finished(got), Reference((sample,)), trait)


def _finished(outputs: Arrays) -> Execution:
    return Execution("", Outcome.OK, Stage.RUN, outputs=(outputs,))


def _spread_sample(opened: OpenedProgram, arrays: Arrays, native: Arrays) -> ReferenceSample:
    """For frameworks whose graphs have no shadow."""
    reference = import_string(REFERENCES[opened.framework])(opened)
    exact, spread, note = measure_spread(reference, arrays, native)
    return ReferenceSample(native=native, exact=exact, spread=spread, note=note, inputs=arrays)


class _LocalShadow:
    """The shadow of one program on one sample, played in this process."""

    def __init__(self, opened: OpenedProgram, arrays: Arrays) -> None:
        self._opened, self._arrays = opened, arrays
        self._players: dict[str, Player] = {}

    def exact(self) -> Arrays:
        return self._player("").reference()

    def ask(self, arithmetic: str, runs: int, outputs: Arrays | None) -> ShadowAnswer:
        try:
            return self._player(arithmetic).ask(runs, outputs)
        except NoExactReference as reason:
            raise NoShadow(str(reason)) from reason

    def _player(self, arithmetic: str) -> Player:
        if arithmetic not in self._players:
            open_shadow = import_string(FRONT_ENDS[self._opened.framework])
            self._players[arithmetic] = Player(open_shadow(self._opened, self._arrays, declared(arithmetic)))
        return self._players[arithmetic]


def _same_bits(got: Any, native: Any) -> bool:
    return got.dtype == native.dtype and got.shape == native.shape and got.tobytes() == native.tobytes()


def _json(verdict: Verdict) -> dict[str, Any]:
    return {
        "judgement": str(verdict.judgement),
        "reason": verdict.reason,
        "kind": str(verdict.kind) if verdict.kind else None,
        "z": float(verdict.evidence.get("z", 0.0)),
        "evidence": str(evidence_class(verdict.kind, verdict.evidence)) if verdict.kind else "",
        "output": str(verdict.evidence.get("output", "")),
    }
