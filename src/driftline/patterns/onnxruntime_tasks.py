"""Worker tasks of ONNX Runtime: list optimisers, and find out which of them change a model and its results.

An optimiser has *matched* a model if the session's log says that it changed something, and *fired* if disabling only
this one gives another optimised graph. The log reports rewrite rules only as two groups, so each rule is tested by
disabling it.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftline.backends import BACKENDS
from driftline.backends.onnxruntime import OPTIMIZERS, SETTINGS, OnnxRuntime, runner
from driftline.core.task import Context, Task
from driftline.core.tensors import Arrays
from driftline.core.text import first_line
from driftline.patterns.survey import Models, Surveyed, SurveyJob, SurveySeen, difference, each_job
from driftline.programs.onnx.signature import graph_signature

_APPLIED = re.compile(r"GraphTransformer (\w+) modified: (\d)")
_LEVEL = re.compile(r"graph transformer\(s\) for level (\d)")
_TYPE_NAME = re.compile(rb"N11onnxruntime\d+([A-Z]\w*?(?:Fusion|Elimination|Transformer|Remover|Folding|Sharing))E")
RULES = "RuleBasedTransformer"  # how the two optimisers that hold the rewrite rules end


_ME = "driftline.patterns.onnxruntime_tasks"


@dataclass(frozen=True)
class OptimisersRequest:
    """Asks which optimisers a session of this build runs."""


@dataclass(frozen=True)
class Optimisers:
    """The optimisers that a session runs, with their levels; the known names found in its library; and the optimiser
    classes of the library."""

    levels: Mapping[str, int]
    present: tuple[str, ...]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class OnnxRuntimeAuditRequest:
    models: Models
    options: Mapping[str, str]
    rules: tuple[str, ...]  # rewrite rules among the names
    names: tuple[str, ...]  # optimisers that are asked about


OPTIMISERS = Task(f"{_ME}:optimisers", OptimisersRequest, Optimisers)
AUDIT = Task(f"{_ME}:audit", OnnxRuntimeAuditRequest, Surveyed)


@OPTIMISERS.serve
def optimisers(request: OptimisersRequest, context: Context) -> Optimisers:
    options = {"enable": "+".join(SETTINGS)}
    levels: dict[str, int] = {}
    with _log() as said:
        _backend().session(_trivial_model(), options, severity=0)
        text = said()
    level = 0
    for line in text.splitlines():
        if found := _LEVEL.search(line):
            level = int(found.group(1))
        elif found := _APPLIED.search(line):
            levels.setdefault(found.group(1), level)
    library = _library().read_bytes()
    classes = {name.decode() for name in _TYPE_NAME.findall(library)}
    present = tuple(sorted(name for name in OPTIMIZERS if name.encode() in library))
    return Optimisers(levels, present, tuple(sorted(classes)))


@AUDIT.serve
def audit(request: OnnxRuntimeAuditRequest, context: Context) -> Surveyed:
    """Report for each model the rules that matched, those that fired, and their effects on the results."""
    options, rules = dict(request.options), frozenset(request.rules)
    for job in each_job(request.models, context):
        job.answer(_audit_one(job, options, rules, request.names))
    return Surveyed()


def _audit_one(job: SurveyJob, options: dict[str, str], rules: frozenset[str], names: Sequence[str]) -> SurveySeen:
    data, samples = job.data(), job.samples()
    whole = _Run(data, options, samples, job.folder, log=True)
    if whole.error:
        return _cures(whole, data, options, samples, job.folder, names)
    matched = [name for name in whole.applied if name in names]
    rewriting = any(name.endswith(RULES) for name in whole.applied)
    asked = [*(name for name in names if rewriting and name in rules), *matched]  # in the order in which they run
    fired, differing = [], {}
    for name in asked:
        without = _Run(data, _without(options, name), samples, job.folder)
        if without.graph != whole.graph or without.error:
            fired.append(name)
            seen = difference(whole.outputs, without.outputs) if not without.error else ""
            if seen:
                differing[name] = seen
    return SurveySeen((*matched, *(n for n in fired if n in rules)), tuple(fired), differing)


def _cures(
    whole: _Run,
    data: bytes,
    options: dict[str, str],
    samples: Sequence[Arrays],
    folder: Path,
    names: Sequence[str],
) -> SurveySeen:
    """Find the optimisers without which a failing model works. If it fails without any optimiser, that failure is
    returned instead."""
    if _Run(data, {**options, "opt": "off"}, samples, folder).error:
        return SurveySeen(failed=whole.error)
    cured = [n for n in names if not _Run(data, _without(options, n), samples, folder).error]
    cured.sort(key=lambda name: whole.applied.index(name) if name in whole.applied else len(names))  # as they ran
    return SurveySeen(tuple(cured), tuple(cured), dict.fromkeys(cured, f"raises {whole.error}"))


def _without(options: dict[str, str], name: str) -> dict[str, str]:
    return {**options, "disable": "+".join(filter(None, [options.get("disable", ""), name]))}


class _Run:
    """A run of a model in its own session: its optimised graph and results, or the error."""

    def __init__(
        self, data: bytes, options: dict[str, str], samples: Sequence[Arrays], folder: Path, *, log: bool = False
    ) -> None:
        self.error, self.graph = "", ""
        self.applied: list[str] = []
        self.outputs: list[Arrays] = []
        path = folder / "optimised.onnx"
        try:
            with _log() as said:
                try:
                    session = _backend().session(data, options, optimised=str(path), severity=1 if log else 3)
                finally:
                    changes = _APPLIED.findall(said()) if log else []
                    self.applied = list(dict.fromkeys(name for name, changed in changes if changed == "1"))
            self.graph = graph_signature(path.read_bytes())
            run = runner(session)
            self.outputs = [run(arrays) for arrays in samples]
        except Exception as error:
            self.error = f"{type(error).__name__}: {first_line(str(error))}"


@contextlib.contextmanager
def _log() -> Iterator[Any]:
    """Capture what the runtime writes to stderr inside the block: it cannot write its log anywhere else."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)

        def said() -> str:
            file.seek(0)
            return file.read().decode(errors="replace")

        try:
            yield said
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _backend() -> OnnxRuntime:
    backend = BACKENDS.get("onnxruntime")
    assert isinstance(backend, OnnxRuntime)
    return backend


def _library() -> Path:
    import onnxruntime.capi.onnxruntime_pybind11_state as extension

    return Path(extension.__file__)


def _trivial_model() -> bytes:
    from onnx import helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", 1, [2])], [value("y", 1, [2])])
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString()
    )
