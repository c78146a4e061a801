"""KernelDiff: compares the results of two backends of torch.compile, in the user's own process.

    report = KernelDiffHarness(model, (x,), test_backend="inductor").compare()
    print(report.summary()); assert report.passed

Outputs may be nested, dataclasses or Hugging Face outputs; inputs a tuple or a dict. Metrics stream over blocks, so
that comparing two tensors takes little more memory than they do. What fails for one output does not stop the others.
"""

from __future__ import annotations

import contextlib
import math
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from driftline.backends._torch import as_arrays, backward, cotangents, flatten_tensors
from driftline.core.errors import DriftlineError
from driftline.core.structure import rebuild
from driftline.core.text import first_line
from driftline.inductor.diff_report import ORACLE, TOLERANCE, KernelDiffReport, OutputDiff
from driftline.inductor.diff_verdict import LARGEST, OracleQuestion, by_oracle, by_tolerance, tolerance_of
from driftline.inductor.lab import DEFAULT, Lab
from driftline.inductor.tf32 import TF32, kinds_with_tf32, without_tf32
from driftline.oracle.judge import NoShadow
from driftline.oracle.metrics import TensorMetrics, compare_tensors
from driftline.programs.live import LiveProgram
from driftline.programs.source import seed_everything

CompileBackend = str | Callable[..., Any]
_compiled: weakref.WeakKeyDictionary[Any, dict[Any, Callable[..., Any]]] = weakref.WeakKeyDictionary()


class KernelDiffHarness:
    """Runs a model with two backends and compares the results. `eager` is the uncompiled model.

    On a GPU both run without TF32, whatever torch is set to. With `tf32=True` they run as torch is set, and where that
    allows TF32 the oracle allows for it."""

    def __init__(
        self, model: Callable[..., Any], inputs: Any, *, model_name: str = "",
        reference_backend: CompileBackend = "eager", test_backend: CompileBackend = "inductor", grad: bool = False,
        runs: int = 1, seed: int = 0, tf32: bool = False, patience: float = math.inf,
    ) -> None:  # fmt: skip
        """`patience`: seconds to wait for the oracle, which runs the model in float64 repeatedly. After that the
        tolerances of torch.testing decide."""
        if not callable(model):
            raise DriftlineError(f"KernelDiffHarness needs a model that can be called, not a {type(model).__name__}.")
        if runs < 1:
            raise DriftlineError(f"runs={runs}: run the test backend at least once.")
        self._model, self._inputs = model, inputs
        self._name = model_name or getattr(model, "__name__", type(model).__name__)
        self._reference, self._test = reference_backend, test_backend
        self._grad, self._runs, self._seed, self._tf32 = grad, runs, seed, tf32
        self._patience = patience

    def compare(self, *, generate_visualizations: bool = False, out: str | Path | None = None) -> KernelDiffReport:
        """Run both backends and judge. With pictures, or with `out`, the result is kept as a run in a lab folder."""
        allowed = kinds_with_tf32()
        self._deadline = time.monotonic() + self._patience
        with contextlib.nullcontext() if self._tf32 else without_tf32():
            return self._compare(generate_visualizations, out, allowed)

    def _compare(
        self, generate_visualizations: bool, out: str | Path | None, with_tf32: Sequence[str]
    ) -> KernelDiffReport:
        names = (_backend_name(self._reference), _backend_name(self._test))
        try:
            expected = self._run(self._reference)
        except Exception as error:
            failed = KernelDiffReport(self._name, *names, (), self._runs, error=_raised(names[0], error))
            return self._kept(failed, out, None, None)
        try:
            got = self._run(self._test)
        except Exception as error:
            failed = KernelDiffReport(self._name, *names, (), self._runs, error=_raised(names[1], error))
            return self._kept(failed, out, None, None)
        others = [self._again(got) for _ in range(self._runs - 1)]
        outputs, notes = self._judged(expected, got, others, with_tf32)
        report = KernelDiffReport(self._name, *names, tuple(outputs), self._runs, notes=tuple(notes))
        if generate_visualizations or out is not None:
            return self._kept(report, out, expected if generate_visualizations else None, got)
        return report

    def _run(self, backend: CompileBackend) -> dict[str, Any]:
        """Run the model, wait for the device, and return outputs and gradients by name, as tensors."""
        import torch

        function = compiled(self._model, backend)
        live = LiveProgram.bind("torch", self._model, self._inputs)
        tensors: dict[str, Any] = {}

        def leaf(name: str, value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            made = value.detach()
            if value.nbytes < 1 << 28:  # a model may write into its inputs; of huge ones no copies are made
                made = made.clone()
            if self._grad and made.is_floating_point():
                made.requires_grad_()
            tensors[name] = made
            return made

        arguments = rebuild(dict(live.arguments), leaf)
        args, kwargs = (tuple(arguments.values()), {}) if live.positional else ((), arguments)
        weights = dict(self._model.named_parameters()) if isinstance(self._model, torch.nn.Module) else {}
        kept = {name: weight.grad for name, weight in weights.items()}
        for weight in weights.values():
            weight.grad = None
        try:
            seed_everything(self._seed)
            with torch.set_grad_enabled(self._grad), torch._inductor.config.patch(fallback_random=True):
                result = function(*args, **kwargs)
                if self._grad:
                    backward(cotangents(result, self._seed))
            found = flatten_tensors(result)
            if self._grad:
                leaves = {**tensors, **weights}
                found |= {f"grad:{name}": leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
        finally:
            for name, weight in weights.items():
                weight.grad = kept[name]
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return found

    def _again(self, first: Mapping[str, Any]) -> dict[str, tuple[Any, float]]:
        """Run the test backend again. Returns its tensors, and their largest difference from the first run."""
        found: dict[str, tuple[Any, float]] = {}
        for name, value in self._run(self._test).items():
            try:
                found[name] = (value, _metrics(value, first[name]).max_abs)
            except (DriftlineError, KeyError, TypeError, ValueError):
                continue
        return found

    def _judged(
        self, expected: dict[str, Any], got: dict[str, Any], others: list[dict[str, tuple[Any, float]]],
        with_tf32: Sequence[str],
    ) -> tuple[list[OutputDiff], list[str]]:  # fmt: skip
        notes: list[str] = []
        verdicts: dict[str, tuple[str, str]] = {}
        arithmetic = ""
        if with_tf32 and _on_gpu(got):
            told = f"torch is set to compute {' and '.join(with_tf32)} in TF32"
            if self._tf32:
                arithmetic = TF32
                notes.append(f"{told}: all products of float32 are judged as TF32.")
            else:
                notes.append(f"{told}; both runs were made without it. tf32=True leaves it on.")
        try:
            verdicts = self._oracle(got, arithmetic)
        except NoShadow as reason:
            notes.append(f"The oracle did not judge: {reason}. The tolerances of torch.testing decide.")
        outputs = []
        for name in dict.fromkeys([*expected, *got]):
            outputs.append(_output(name, expected, got, others, verdicts))
        return outputs, notes

    def _oracle(self, got: dict[str, Any], arithmetic: str) -> dict[str, tuple[str, str]]:
        import torch

        elements = sum(value.numel() for value in got.values() if isinstance(value, torch.Tensor))
        if elements > LARGEST:
            raise NoShadow(f"the outputs have {elements:,} elements, which is too much to play in float64")
        asked = OracleQuestion(self._grad, self._seed, arithmetic, self._deadline)
        return by_oracle(self._model, self._inputs, as_arrays(got), asked)

    def _kept(
        self, report: KernelDiffReport, out: str | Path | None, expected: dict[str, Any] | None, got: Any
    ) -> KernelDiffReport:
        if out is None and expected is None:
            return report
        run = Lab(out or DEFAULT).new_run("diff", self._name)
        outputs = []
        for at, one in enumerate(report.outputs):
            pictures: tuple[str, ...] = ()
            if expected is not None and one.metrics is not None and one.metrics.size:
                from driftline.inductor.pictures import draw_difference

                file = f"pictures/{at}-{_file_name(one.name)}.png"
                run.write(file, draw_difference(expected[one.name], got[one.name], one.name, one.metrics))
                pictures = (file,)
            outputs.append(replace(one, pictures=pictures))
        report = replace(report, outputs=tuple(outputs), folder=run.folder)
        run.write_json("diff.json", report.value())
        failed = sum(one.judgement == "fail" for one in outputs)
        run.finish(outputs=len(outputs), wrong=failed)
        return report


def compiled(model: Callable[..., Any], backend: CompileBackend) -> Callable[..., Any]:
    """Return the model compiled with a backend. It is compiled once for all harnesses, as long as the model lives."""
    import torch

    if backend == "eager":
        return model
    try:
        known = _compiled.setdefault(model, {})
    except TypeError:  # some callables cannot be referred to weakly
        return torch.compile(model, backend=backend)
    if backend not in known:
        # A module's compiled form holds the module: kept by a weak key alone, it would live for ever.
        target = model if not isinstance(model, torch.nn.Module) else _Weakly(model)
        known[backend] = torch.compile(target, backend=backend)
    return known[backend]


class _Weakly:
    """Calls a module through a weak reference."""

    def __init__(self, model: Any) -> None:
        self._model = weakref.ref(model)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        model = self._model()
        assert model is not None  # the caller has it
        return model(*args, **kwargs)


def _output(
    name: str, expected: Mapping[str, Any], got: Mapping[str, Any], others: list[dict[str, tuple[Any, float]]],
    verdicts: Mapping[str, tuple[str, str]],
) -> OutputDiff:  # fmt: skip
    """Compare and judge one output. An error becomes part of its result, so that other outputs are still compared."""
    if name not in got or name not in expected:
        side = "the test backend" if name not in got else "the reference backend"
        return OutputDiff(name, "fail", f"{side} does not return it", TOLERANCE)
    try:
        metrics = _metrics(got[name], expected[name])
        runs = (metrics.max_abs, *(_metrics(o[name][0], expected[name]).max_abs for o in others if name in o))
        between = max((o[name][1] for o in others if name in o), default=0.0)
    except DriftlineError as error:
        return OutputDiff(name, "fail", str(error), TOLERANCE)
    except Exception as error:
        return OutputDiff(name, "inconclusive", f"cannot be compared: {type(error).__name__}: {error}", "")
    judgement, reason = verdicts.get(name) or by_tolerance(metrics)
    return OutputDiff(name, judgement, reason, ORACLE if name in verdicts else TOLERANCE, metrics, runs, between)


def _on_gpu(got: Mapping[str, Any]) -> bool:
    return any(getattr(value, "is_cuda", False) for value in got.values())


def _metrics(actual: Any, expected: Any) -> TensorMetrics:
    import numpy as np

    one, other = (value if hasattr(value, "shape") else np.asarray(value) for value in (actual, expected))
    rtol, atol = tolerance_of(str(one.dtype).removeprefix("torch."))
    return compare_tensors(one, other, rtol=rtol, atol=atol)


def _backend_name(backend: CompileBackend) -> str:
    return backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)


def _raised(backend: str, error: BaseException) -> str:
    inner = getattr(error, "inner_exception", None)  # torch wraps what a backend raises, and says so in its first line
    told = inner if isinstance(inner, BaseException) else error
    return f"{backend} raised {type(told).__name__}: {first_line(str(told))}"


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "._" else "-" for c in name)[:60]
