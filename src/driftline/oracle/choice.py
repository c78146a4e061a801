"""`--oracle`: the rounding-noise rule, or a plain tolerance for those who want one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftline.core.errors import DriftlineError
from driftline.core.tensors import Arrays, is_float
from driftline.core.text import did_you_mean
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.oracle.metrics import compare_tensors
from driftline.oracle.outputs import called

DEFAULT = "shadow"


@dataclass(frozen=True)
class Tolerance:
    """Close enough is right: |got - expected| <= atol + rtol * |expected|."""

    rtol: float = 1e-5
    atol: float = 1e-8

    def judge(self, got: Arrays, expected: Arrays) -> Verdict:
        """Against the unoptimised run, as everybody does it. NaN equals NaN; integers must be equal."""
        for name, native in expected.items():
            rtol, atol = (
                (self.rtol, self.atol) if is_float(native.dtype.name) or native.dtype.kind == "c" else (0.0, 0.0)
            )
            metrics = compare_tensors(got[name], native, rtol=rtol, atol=atol)
            if metrics.mismatched:
                kind = Kind.WRONG_NONFINITE if metrics.nonfinite_mismatched else Kind.WRONG_VALUE
                evidence = {"output": name, **metrics.to_json()}
                return Verdict(Judgement.FAIL, f"{called(name)}: {metrics}", kind, evidence)
        return Verdict(Judgement.PASS, f"within rtol={self.rtol:g}, atol={self.atol:g} of the unoptimised run")


def parse_oracle(text: str) -> Tolerance | None:
    """`shadow` (the rule of this project) is None; `allclose:rtol=1e-3,atol=1e-5` is a tolerance."""
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
