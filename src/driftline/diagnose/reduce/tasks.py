"""Worker tasks of a reduction: read a program into a graph, run a graph, write candidates.

`prepare` answers as the task of the same name in `checking/batch_tasks.py` does, so that candidates are screened like
any other batch of programs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from driftline.checking.batch_requests import InvalidProgram, PreparedBatch, PreparedProgram
from driftline.core.plugins import load_plugins
from driftline.core.program import Program, SourceBundle
from driftline.core.registry import import_string
from driftline.core.task import Context
from driftline.core.tensors import Arrays, spec_of
from driftline.core.text import first_line
from driftline.diagnose.reduce import meaning
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph, short_name
from driftline.diagnose.reduce.requests import (
    EVALUATE,
    READ,
    WRITE,
    CandidateRequest,
    EvaluateRequest,
    GraphCandidate,
    ReadEvaluated,
    ReadRequest,
    TextCandidate,
    WriteRequest,
)
from driftline.diagnose.reduce.values import Values
from driftline.execute.shelf import save_samples
from driftline.oracle.reference import REFERENCES
from driftline.programs.opened import OpenedProgram

ENTRY = "program.py"


class Senseless(Exception):
    """A candidate has flaws that the original does not have."""


@READ.serve
def read(request: ReadRequest, context: Context) -> ReadEvaluated:
    """Read a program as an evaluated graph."""
    load_plugins(request.case.plugins)
    samples = request.case.samples()
    values = Values(request.values)
    opened = OpenedProgram.of(request.case, samples[0])
    try:
        if opened.framework == "onnx":
            from driftline.diagnose.reduce.onnx_graph import read_onnx

            graph = read_onnx(opened.data, samples, values)
        else:
            from driftline.diagnose.reduce.fx_graph import read_torch

            graph = read_torch(opened, samples, request.tracer, values)
        return ReadEvaluated(_evaluated(graph, opened.framework, values, len(samples)))
    except Exception as error:
        return ReadEvaluated(problem=_first_line(error))


@EVALUATE.serve
def evaluate(request: EvaluateRequest, context: Context) -> Evaluated:
    """Compute every value of a graph."""
    return _evaluated(request.graph, request.framework, Values(request.values), request.samples)


def _evaluated(graph: ProgramGraph, framework: str, values: Values, samples: int) -> Evaluated:
    if framework == "onnx":
        from driftline.diagnose.reduce.onnx_graph import evaluate_onnx

        return evaluate_onnx(graph, values, samples)
    from driftline.diagnose.reduce.fx_graph import evaluate_torch

    return evaluate_torch(graph, values, samples)


@WRITE.serve
def prepare(request: WriteRequest, context: Context) -> PreparedBatch:
    """Write candidates as programs with their inputs and, if requested, the results of their reference."""
    load_plugins(request.plugins)
    programs = []
    for number, candidate in enumerate(request.requests):
        context.lap()
        programs.append(_prepare_one(candidate, request, number))
    return PreparedBatch(tuple(programs))


def _prepare_one(candidate: CandidateRequest, request: WriteRequest, number: int) -> PreparedProgram | InvalidProgram:
    folder = request.folder
    try:
        data, versions, operators = _written(candidate, request)
        form = "onnx" if request.framework == "onnx" else "source"
        path = folder / f"{number}.program"
        path.write_bytes(data)
        program = Program(
            form=form,
            framework=request.framework,
            digest=hashlib.sha256(data).hexdigest(),
            path=path,
            name=request.name,
            inputs=tuple(spec_of(name, array) for name, array in versions[0][0].items()),
            outputs=_output_names(data) if form == "onnx" else (),
            operators=tuple(operators),
        )
        tensors, native = folder / f"{number}.inputs", folder / f"{number}.native"
        prepared = PreparedProgram(program, str(tensors), str(native), request.origins, request.grad, request.company)
        if request.refer:
            opened = OpenedProgram(program, example=versions[0][0], grad=request.grad, seed=request.seed)
            reference = import_string(REFERENCES[program.framework])(opened)
            flaws = _flaws(candidate, request, len(versions))
            referred = _referred(reference, versions, flaws, request.allowed)
            prepared = replace(prepared, flaws=tuple(sorted(flaws[0])))
            versions = [
                samples for samples, result in zip(versions, referred, strict=True) if not isinstance(result, str)
            ]
            save_samples(native, [outputs for result in referred if not isinstance(result, str) for outputs in result])
            if len(referred) > 1:
                unfit = tuple(result if isinstance(result, str) else "" for result in referred)
                prepared = replace(prepared, each=True, unfit=unfit)
        save_samples(tensors, [arrays for samples in versions for arrays in samples])
        return replace(prepared, origins=request.origins * len(versions))
    except Exception as error:  # most candidates that are not programs end here, and it is no matter
        return InvalidProgram(_first_line(error))


def _flaws(candidate: CandidateRequest, request: WriteRequest, versions: int) -> list[set[str]]:
    """Return the flaws of the program for each version of its inputs; empty sets for text, whose inner values are
    unknown.
    """
    if isinstance(candidate, TextCandidate) or not request.meaningful:
        return [set() for _ in range(versions)]
    values = Values(request.values)
    graph, held = _versions(candidate)
    if request.framework == "onnx":
        from driftline.diagnose.reduce.onnx_graph import every_value_onnx as every_value
    else:
        from driftline.diagnose.reduce.fx_graph import every_value_torch as every_value
    return [
        {flaw for sample in samples for flaw in meaning.flaws(graph, sample)}
        for samples in every_value(graph, values, held)
    ]


def _referred(
    reference: Any, versions: list[list[Arrays]], flaws: list[set[str]], allowed: Sequence[str] | None
) -> list[list[Arrays] | str]:
    """Return the reference results for each version of the inputs, or the reason why there are none. Raise if there are
    none for all versions.

    Flaws of the results are added to `flaws`; `allowed` are the flaws of the original, if known.
    """
    results: list[list[Arrays] | str] = []
    for samples, known in zip(versions, flaws, strict=True):
        try:
            natives = [reference.native(arrays) for arrays in samples]
            known |= meaning.flaws_of_arrays(array for outputs in natives for array in outputs.values())
            if allowed is not None and (more := known.difference(allowed)):
                raise Senseless(f"{', '.join(sorted(more))}, which is not so in the original")
            results.append(natives)
        except Exception as error:
            if len(results) + 1 == len(versions) and all(isinstance(result, str) for result in results):
                raise
            results.append(_first_line(error))
    return results


def _versions(candidate: GraphCandidate) -> tuple[ProgramGraph, list[list[str]]]:
    """Return the graph, and the values of its leaves in each version to test."""
    graph = candidate.graph
    return graph, [[leaf.data for leaf in graph.leaves], *map(list, candidate.others)]


def _written(candidate: CandidateRequest, request: WriteRequest) -> tuple[bytes, list[list[Arrays]], Sequence[str]]:
    """Return the bytes of the program, its samples in each version to test, and its operators."""
    values = Values(request.values)
    if isinstance(candidate, TextCandidate):
        files = {**request.frame.files, ENTRY: candidate.text}
        arrays = {name: values.load(data) for name, data in candidate.inputs.items()}
        bundle = SourceBundle(ENTRY, request.frame.entry, files)
        return bundle.dump(), [_by_sample(arrays, len(request.origins))], candidate.operators
    graph, versions = _versions(candidate)
    if request.framework == "onnx":
        from driftline.diagnose.reduce.onnx_graph import write_onnx

        data, names = write_onnx(graph, values)
        operators = graph.operators
    else:
        from driftline.diagnose.reduce.fx_graph import write_torch

        text, names = write_torch(graph, values)
        data = SourceBundle(ENTRY, "program", {ENTRY: text}).dump()
        operators = [short_name(op) for op in graph.operators]
    samples = []
    for version in versions:
        held = [values.load(name) for leaf, name in zip(graph.leaves, version, strict=True) if not leaf.constant]
        samples.append(_by_sample(dict(zip(names, held, strict=True)), len(request.origins)))
    return data, samples, operators


def _by_sample(arrays: Mapping[str, Any], count: int) -> list[Arrays]:
    return [{name: held[index] for name, held in arrays.items()} for index in range(count)]


def _output_names(data: bytes) -> tuple[str, ...]:
    import onnx

    return tuple(output.name for output in onnx.load_model_from_string(data).graph.output)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(str(error), 200)}"
