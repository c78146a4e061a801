"""The result of a KernelDiff, as values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from driftline.core.text import plural, to_json
from driftline.oracle.metrics import TensorMetrics

SCHEMA = 1
ORACLE = "oracle"
TOLERANCE = "tolerance"
RULES = {
    ORACLE: "the oracle: the program in float64, and what rounding may legally do to each element",
    TOLERANCE: "the default tolerances of torch.testing.assert_close, against the reference backend",
}


@dataclass(frozen=True)
class OutputDiff:
    """The comparison of one output, or of one gradient (`grad:NAME`)."""

    name: str
    judgement: str  # pass, fail, inconclusive
    reason: str
    rule: str  # `oracle` or `tolerance`; empty where nothing could be compared
    metrics: TensorMetrics | None = None
    max_abs_of_runs: tuple[float, ...] = ()  # the largest error in each run of the test backend
    between_runs: float = 0.0  # the largest difference of two runs of the test backend
    pictures: tuple[str, ...] = ()

    @property
    def mean_max_abs(self) -> float:
        runs = self.max_abs_of_runs
        return sum(runs) / len(runs) if runs else 0.0

    @property
    def variance(self) -> float:
        """The variance of the largest error over the runs."""
        runs, mean = self.max_abs_of_runs, self.mean_max_abs
        return sum((value - mean) ** 2 for value in runs) / len(runs) if runs else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "metrics": self.metrics.to_json() if self.metrics else None,
            "mean_max_abs": self.mean_max_abs,
            "variance": self.variance,
        }


@dataclass(frozen=True)
class KernelDiffReport:
    """The result of `KernelDiffHarness.compare`."""

    model: str
    reference_backend: str
    test_backend: str
    outputs: tuple[OutputDiff, ...]
    runs: int = 1
    error: str = ""  # the exception of a backend, if it raised
    notes: tuple[str, ...] = ()
    folder: Path | None = None

    @property
    def passed(self) -> bool:
        """True if something could be compared and nothing is wrong."""
        judged = [one for one in self.outputs if one.judgement != "inconclusive"]
        return not self.error and bool(judged) and all(one.judgement == "pass" for one in judged)

    def summary(self) -> str:
        """Return a sentence, then a line for each output that is wrong or could not be judged."""
        against = f"{self.test_backend} against {self.reference_backend}"
        if self.error:
            return f"{self.model}, {against}: {self.error}"
        failed = [one for one in self.outputs if one.judgement == "fail"]
        open_ones = [one for one in self.outputs if one.judgement == "inconclusive"]
        worst = max((one.metrics.max_abs for one in self.outputs if one.metrics), default=0.0)
        every = plural(len(self.outputs), "output")
        told = f"{len(failed)} of {every} wrong" if failed else f"{every} agree{'s' if len(self.outputs) == 1 else ''}"
        if open_ones and not failed:
            told = f"{len(self.outputs) - len(open_ones)} of {every} agree, the others are open"
        rules = ", ".join(dict.fromkeys(one.rule for one in self.outputs if one.rule))
        lines = [f"{self.model}, {against}: {told}; largest absolute difference {worst:.3g}; judged by: {rules}"]
        lines += [f"  {one.name}: {one.judgement}: {one.reason}" for one in (*failed, *open_ones)]
        return "\n".join(lines)

    def value(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "schema": SCHEMA,
            "model": self.model,
            "reference_backend": self.reference_backend,
            "test_backend": self.test_backend,
            "passed": self.passed,
            "summary": self.summary(),
            "error": self.error,
            "runs": self.runs,
            "rules": RULES,
            "notes": list(self.notes),
            "outputs": [one.to_json() for one in self.outputs],
        }

    def to_json(self) -> str:
        return to_json(self.value(), indent=1)
