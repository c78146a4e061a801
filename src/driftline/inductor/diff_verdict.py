"""Judges a KernelDiff: by the oracle where possible, else by tolerances.

The oracle runs the program's own graph in float64 and computes how far rounding may move each element. It cannot judge
programs that do not trace, tensors so large that several float64 runs would not fit into memory, or runs that take
longer than the caller waits. Then the default tolerances of `torch.testing` decide, and the report says so.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.program import Program
from driftline.core.registry import import_string
from driftline.core.tensors import Arrays, is_float
from driftline.core.text import first_line
from driftline.core.verdict import Judgement, Verdict
from driftline.execute.processors import all_cores
from driftline.oracle.judge import NoShadow, Reference, ReferenceSample, TargetTraits, judge
from driftline.oracle.metrics import TensorMetrics
from driftline.oracle.reference import REFERENCES
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.shadow.local import LocalShadow
from driftline.programs.live import LiveProgram
from driftline.programs.opened import OpenedProgram

LARGEST = 1 << 24  # the most elements, of all outputs together, that the oracle judges
# As torch.testing.assert_close has them: (relative, absolute).
TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip


def tolerance_of(dtype: str) -> tuple[float, float]:
    return TOLERANCES.get(dtype, (0.0, 0.0) if not is_float(dtype) else (1.6e-2, 1e-5))


def by_tolerance(metrics: TensorMetrics) -> tuple[str, str]:
    """Return the judgement and reason; the metrics already count mismatches by the dtype's tolerance."""
    if not metrics.mismatched and not metrics.nonfinite_mismatched:
        return "pass", "within tolerance"
    return "fail", str(metrics)


@dataclass(frozen=True)
class OracleQuestion:
    """The settings of the oracle for judging outputs."""

    grad: bool
    seed: int
    arithmetic: str = ""
    deadline: float = math.inf  # of `time.monotonic`


def by_oracle(model: Callable[..., Any], inputs: Any, got: Arrays, asked: OracleQuestion) -> dict[str, tuple[str, str]]:
    """Return a judgement and reason for each output; after the deadline, only for outputs already known to be wrong.
    Raises `NoShadow` if the oracle cannot judge this program or found nothing before the deadline. Its float64 runs use
    all processors, since nothing else runs meanwhile."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(max(before, all_cores()))
    try:
        return _by_oracle(model, inputs, got, asked)
    finally:
        torch.set_num_threads(before)


def _by_oracle(
    model: Callable[..., Any], inputs: Any, got: Arrays, asked: OracleQuestion
) -> dict[str, tuple[str, str]]:
    import torch

    live = LiveProgram.bind("torch", model, inputs)
    live = replace(live, function=_on_cpu(live.function), arguments=_moved(live.arguments))
    arrays = live.example_arrays()
    program = Program("torch", "torch", "", Path(), "model")
    opened = OpenedProgram.of_live(program, live, example=arrays, grad=asked.grad, seed=asked.seed)
    opened.fresh = lambda: live  # type: ignore[method-assign]
    try:
        native: Arrays = import_string(REFERENCES["torch"])(opened).native(arrays)
        shadow = LocalShadow(opened, arrays, asked.deadline)
        exact = shadow.exact()
    except (NoExactReference, DriftlineError) as reason:
        raise NoShadow(first_line(str(reason))) from reason
    except Exception as error:  # whatever a user's model does when it is traced
        raise NoShadow(f"{type(error).__name__}: {first_line(str(error))}") from error
    finally:
        torch.set_grad_enabled(True)
    native = {name: array for name, array in native.items() if name in got}
    if set(native) != set(got):
        missing = ", ".join(sorted(set(got) - set(native)))
        raise NoShadow(f"the reference run has no {missing}")
    trait = TargetTraits(calls_user_code=True, positional=False, arithmetic=asked.arithmetic)
    found: dict[str, tuple[str, str]] = {}
    left = dict(got)
    while left:  # a verdict names the first output that is wrong: ask again without it
        sample = ReferenceSample(
            native={n: native[n] for n in left}, exact={n: exact[n] for n in left if n in exact}, shadow=shadow.ask,
            sparing=True, inputs=arrays,
        )  # fmt: skip
        verdict = judge(Execution("", Outcome.OK, Stage.RUN, outputs=(left,)), Reference((sample,)), trait)
        if shadow.late and found:
            break
        if shadow.late:
            raise NoShadow("it takes too long: it runs the program in float64 again and again")
        wrong = verdict.evidence.output
        if verdict.judgement is Judgement.FAIL and wrong in left:
            found[wrong] = _told(verdict)
            del left[wrong]
        else:
            found |= dict.fromkeys(left, _told(verdict))
            break
    return found


def _told(verdict: Verdict) -> tuple[str, str]:
    return str(verdict.judgement), verdict.reason or "agrees with the reference"


def _on_cpu(function: Any) -> Any:
    import torch

    if isinstance(function, torch.nn.Module) and any(p.device.type != "cpu" for p in function.parameters()):
        return copy.deepcopy(function).cpu()
    return function


def _moved(arguments: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    def leaf(name: str, value: Any) -> Any:
        return value.detach().cpu() if isinstance(value, torch.Tensor) else value

    from driftline.core.structure import rebuild

    return dict(rebuild(dict(arguments), leaf))
