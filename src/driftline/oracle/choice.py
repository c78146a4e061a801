"""The option `--oracle`: judge by the rounding-noise rule (the default) or by a plain tolerance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftline.core.errors import DriftlineError
from driftline.core.evidence import Evidence
from driftline.core.faults import faults_of
from driftline.core.sentences import failing
from driftline.core.tensors import Array, Arrays, is_float
from driftline.core.text import did_you_mean
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.oracle.differing import elements
from driftline.oracle.metrics import TensorMetrics, compare_tensors

DEFAULT = "shadow"


@dataclass(frozen=True)
class Tolerance:
    """Tolerances in place of the rounding-noise rule: pass if |got - expected| <= atol + rtol * |expected|."""

    rtol: float = 1e-5
    atol: float = 1e-8

    def judge(self, got: Arrays, expected: Arrays) -> Verdict:
        """Compare `got` with the outputs of the unoptimised run. NaN equals NaN; integers and booleans must be
        equal."""
        for name, native in expected.items():
            rtol, atol = (
                (self.rtol, self.atol) if is_float(native.dtype.name) or native.dtype.kind == "c" else (0.0, 0.0)
            )
            metrics = compare_tensors(got[name], native, rtol=rtol, atol=atol)
            if metrics.mismatched:
                kind = Kind.WRONG_NONFINITE if metrics.nonfinite_mismatched else Kind.WRONG_VALUE
                return failing(kind, _evidence(name, metrics, got[name], native))
        return Verdict(Judgement.PASS, f"within rtol={self.rtol:g}, atol={self.atol:g} of the unoptimised run")


def _evidence(name: str, metrics: TensorMetrics, got: Array, native: Array) -> Evidence:
    worst = elements(native, got, [metrics.worst]) if metrics.worst is not None and native.dtype.kind != "c" else ()
    return Evidence(
        output=name,
        dtype=metrics.dtype,
        elements=metrics.size,
        wrong=metrics.mismatched,
        wrong_nonfinite=metrics.nonfinite_mismatched,
        worst=worst,
        faults=faults_of(worst, metrics.dtype),
        tolerance=metrics.to_json(),
    )


def parse_oracle(text: str) -> Tolerance | None:
    """Parse the value of `--oracle`: return `None` for `shadow`, a `Tolerance` for `allclose:rtol=1e-3,atol=1e-5`."""
    name, _, rest = text.partition(":")
    if name == DEFAULT and not rest:
        return None
    if name != "allclose":
        hint = did_you_mean(name, (DEFAULT, "allclose"))
        raise DriftlineError(f"There is no oracle {text!r}.{hint} Use shadow or allclose:rtol=1e-3,atol=1e-5.")
    values: dict[str, float] = {}
    for part in filter(None, rest.split(",")):
        key, _, number = part.partition("=")
        try:
            values[key] = float(number)
        except ValueError:
            key = ""
        if key not in ("rtol", "atol") or not np.isfinite(values[key]) or values[key] < 0:
            raise DriftlineError(f"--oracle {text}: {part!r} is not rtol=NUMBER or atol=NUMBER.")
    return Tolerance(**values)
