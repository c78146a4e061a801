"""Worker tasks of TVM: which passes change a module, and whether its results stay the same.

An instrument watches the passes of the default pipeline while a model is compiled. Only if its results differ from the
reference is the model compiled again without each pass that changed something. The transforms that users call are
applied to the same module one after the other, and one at a time if that changes the results. Differences that rounding
explains are ignored: a fused kernel may round once where two kernels round twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from driftline.backends import BACKENDS
from driftline.backends.tvm import ImportedModel, Tvm, transformed
from driftline.backends.tvm_names import PIPELINE, REQUIRED, TRANSFORMS
from driftline.core.task import Context, Task
from driftline.core.tensors import Arrays
from driftline.core.text import telling_line
from driftline.patterns.rounding import only_rounded
from driftline.patterns.survey import Models, Surveyed, SurveyJob, SurveySeen, difference, each_job, far_apart

_ME = "driftline.patterns.tvm_tasks"


@dataclass(frozen=True)
class PassesRequest:
    """Asks which passes a compilation really runs."""


@dataclass(frozen=True)
class Passes:
    """The passes, and for each fusion pattern why it cannot be used here."""

    passes: tuple[str, ...]
    patterns: Mapping[str, str]


@dataclass(frozen=True)
class TvmAuditRequest:
    models: Models
    transforms: tuple[str, ...]


PASSES = Task(f"{_ME}:passes", PassesRequest, Passes)
AUDIT = Task(f"{_ME}:audit", TvmAuditRequest, Surveyed)


@PASSES.serve
def passes(request: PassesRequest, context: Context) -> Passes:
    import numpy as np
    import onnx

    watch, instrument = _watcher()
    model = ImportedModel(onnx.load_model_from_string(_trivial_model()), {"x": np.zeros(2, np.float32)})
    with _backend().context({}, instrument):
        model.built(model.module())
    return Passes(tuple(sorted(watch.seen)), _fusion_patterns())


@AUDIT.serve
def audit(request: TvmAuditRequest, context: Context) -> Surveyed:
    """Report for each model the passes and transforms that changed it, and those that changed its results."""
    for job in each_job(request.models, context):
        try:
            job.answer(_audit_one(job, request.transforms))
        except Exception as error:  # TVM does not take this model at all: that is the business of `check`
            job.answer(SurveySeen(failed=telling_line(str(error)) or type(error).__name__))
    return Surveyed()


def _audit_one(job: SurveyJob, transforms: Sequence[str]) -> SurveySeen:
    import onnx

    samples = job.samples()
    model = ImportedModel(onnx.load_model_from_string(job.data()), samples[0])
    watch, instrument = _watcher()
    with _backend().context({}):
        module = model.module()
    whole = _outcome(partial(_run, model, module, samples, {}, instrument))
    fired = [name for name in PIPELINE if name in watch.changed]
    differing = {}
    if isinstance(whole, str) or far_apart(whole, job.expected()):
        differing = _without_each([n for n in fired if n not in REQUIRED], whole, model, module, samples)
    if isinstance(whole, list):
        changed = {name: made for name in transforms if (made := _outcome(partial(_transformed, module, name)))}
        fired += changed
        if not _together_right(list(changed), whole, model, module, samples):
            differing |= _with_each(job, changed, whole, model, samples)
    return SurveySeen(tuple(fired), tuple(fired), differing)


def _together_right(
    names: Sequence[str], whole: list[Arrays], model: ImportedModel, module: Any, samples: Sequence[Arrays]
) -> bool:
    """Apply all transforms one after the other. Returns True if the results stay the same, so that none needs to be
    tried alone, which saves most of the compile time."""

    def run() -> list[Arrays]:
        made = module
        with _backend().context({}):
            for name in names:
                made = transformed(made, name)
        return _run(model, made, samples, {})

    result = _outcome(run)
    return isinstance(result, list) and not far_apart(result, whole, 1e-6)


def _with_each(
    job: SurveyJob, changed: Mapping[str, Any], whole: list[Arrays], model: ImportedModel, samples: Sequence[Arrays]
) -> dict[str, str]:
    found = {}
    for name, made in changed.items():
        after = made if isinstance(made, str) else _outcome(partial(_run, model, made, samples, {}))
        if isinstance(after, str):
            found[name] = f"raises {after}"
        elif (seen := difference(whole, after)) and not only_rounded(job, after):
            found[name] = seen
    return found


def _without_each(
    names: Sequence[str], whole: list[Arrays] | str, model: ImportedModel, module: Any, samples: Sequence[Arrays]
) -> dict[str, str]:
    """Return the difference that each pass makes, by compiling without it, for a model that the whole pipeline gets
    wrong."""
    found = {}
    for name in names:
        other = _outcome(partial(_run, model, module, samples, {"skip": name}))
        if isinstance(other, str):
            continue
        if seen := f"raises {whole}" if isinstance(whole, str) else difference(whole, other):
            found[name] = seen
    return found


def _run(
    model: ImportedModel, module: Any, samples: Sequence[Arrays], options: Mapping[str, str], *instruments: Any
) -> list[Arrays]:
    with _backend().context(options, *instruments):
        run = model.built(module)
    return [run(arrays) for arrays in samples]


def _transformed(module: Any, name: str) -> Any:
    """Return the module after a transform; None if the transform changed nothing."""
    import tvm_ffi

    with _backend().context({}):
        made = transformed(module, name)
        before = module if len(TRANSFORMS[name]) == 1 else _before_last(module, name)
    return None if tvm_ffi.structural_equal(before, made) else made


def _before_last(module: Any, name: str) -> Any:
    """Apply the preparatory steps of a transform, whose changes are not the transform's own."""
    from tvm import relax

    for step in TRANSFORMS[name]:
        if step == name:
            return module
        module = getattr(relax.transform, step)()(module)
    return module


def _outcome(make: Callable[[], Any]) -> Any:
    """Return the result of `make`, or the exception as text."""
    try:
        return make()
    except Exception as error:
        return f"{type(error).__name__}: {telling_line(str(error))}"


class _Watch:
    """Which passes ran, and which of them changed the module."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.changed: set[str] = set()


def _watcher() -> tuple[_Watch, Any]:
    import tvm
    import tvm_ffi

    watch = _Watch()

    @tvm.instrument.pass_instrument
    class Watching:
        def __init__(self) -> None:
            self._before: list[Any] = []

        def run_before_pass(self, module: Any, information: Any) -> None:
            watch.seen.add(information.name)
            self._before.append(module)

        def run_after_pass(self, module: Any, information: Any) -> None:
            before = self._before.pop()
            if information.name not in watch.changed and not tvm_ffi.structural_equal(before, module):
                watch.changed.add(information.name)

    return watch, Watching()


def _fusion_patterns() -> dict[str, str]:
    """Return every registered fusion pattern, with why it cannot be used here; an empty string if it can."""
    import contextlib
    import importlib

    import tvm
    from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

    for home in ("cuda.cublas", "cuda.cudnn", "cuda.cutlass", "rocm.hipblas", "metal.coreml", "adreno.clml",
                 "contrib.nnapi", "contrib.tensorrt", "contrib.example_npu"):  # fmt: skip
        with contextlib.suppress(Exception):  # some need packages that are not installed
            importlib.import_module(f"tvm.relax.backend.{home}")
    found = {}
    for pattern in get_patterns_with_prefix(""):
        library = str(pattern.name).partition(".")[0]
        there = tvm.get_global_func(f"relax.ext.{library}", allow_missing=True) is not None
        found[str(pattern.name)] = "" if there else f"TVM was built without {library}"
    return found


def _backend() -> Tvm:
    backend = BACKENDS.get("tvm")
    assert isinstance(backend, Tvm)
    return backend


def _trivial_model() -> bytes:
    from onnx import helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", 1, [2])], [value("y", 1, [2])])
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString()
    )
