"""Twins that are made of a program: another memory layout, another dtype of the same width."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.measure.estimate import Estimate
from driftline.perf.check import PerfOptions, answered, baseline, perf_check, sample_case
from driftline.perf.comparison import Effort, RatioMeasured, Side, Stopwatch, Unmeasured
from driftline.perf.twins import made_twin

TEXT = """
import torch

def make():
    torch.manual_seed(0)
    return torch.nn.Linear(5, 3).eval(), (torch.randn(4, 5),)

def images():
    return torch.relu, (torch.randn(2, 3, 4, 5),)

def halves():
    return torch.abs, (torch.linspace(-2, 2, 8, dtype=torch.float16),)

def scalars():
    return torch.abs, (torch.tensor(True),)
"""


def case_of(checker: Checker, entry: str) -> Case:
    options = CheckOptions()
    return sample_case(open_source(SourceBundle("net.py", entry, {"net.py": TEXT}), checker.pool, options), options)


def loaded(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the twin's own text makes, in this process."""
    bundle = SourceBundle.load(case.program.path.read_bytes())
    for name, text in bundle.files.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    for name in bundle.files:
        sys.modules.pop(Path(name).stem, None)
    return importlib.import_module(Path(bundle.entry_file).stem).program()


def test_weights_and_inputs_lie_otherwise_and_mean_the_same(
    checker: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(checker, "make")
    twin = made_twin(checker, case, "layout")
    assert twin.program.digest != case.program.digest and twin.samples == case.samples
    function, (x,) = loaded(twin, tmp_path, monkeypatch)
    assert x.stride() == (1, 4) and function.weight.stride() == (1, 3)
    original = importlib.import_module("net").make()
    torch.testing.assert_close(function(x), original[0](*original[1]), rtol=1e-6, atol=1e-7)  # another order of sums


def test_images_lie_channels_last(checker: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, (x,) = loaded(made_twin(checker, case_of(checker, "images"), "layout"), tmp_path, monkeypatch)
    assert x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def test_the_other_dtype_has_the_same_width(checker: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    halves = made_twin(checker, case_of(checker, "halves"), "dtype")
    (array,) = halves.samples[0].arrays.values()
    assert array.dtype.name == "bfloat16" and array.dtype.itemsize == 2
    assert loaded(halves, tmp_path, monkeypatch)[1][0].dtype == torch.bfloat16
    images = made_twin(checker, case_of(checker, "images"), "dtype")
    (array,) = images.samples[0].arrays.values()
    assert array.dtype == np.int32 and np.unique(array).size > 4


def test_what_has_no_twin_says_why(checker: Checker) -> None:
    case = case_of(checker, "scalars")
    for kind in ("layout", "dtype"):
        with pytest.raises(DriftlineError, match=f"no input has another {kind}"):
            made_twin(checker, case, kind)
    assert "no input has another layout" in str(baseline(checker, case, Target("eager"), "layout"))
    assert "another dtype" in str(baseline(checker, case_of(checker, "make"), Target("eager"), "dtype"))


def test_a_program_is_timed_against_its_twin(checker: Checker) -> None:
    case = case_of(checker, "images")
    run = perf_check(checker, case, [Target("eager")], PerfOptions(against=("layout",), effort=Effort(rounds=8)))
    (row,) = run.rows
    assert row.against == "layout" and row.measured and not row.found


class Scripted(Stopwatch):
    """Says that the compiler takes twice as long for a program as for its twin, and eager so many times as long."""

    def __init__(self, checker: Checker, eager: float | None) -> None:
        super().__init__(checker, Effort())
        self._eager = eager

    def floor(self, side: Side, limit: float = 1.5) -> float:
        return 1.05

    def measure(self, own: Side, other: Side, **more: Any) -> RatioMeasured | Unmeasured:
        ratio = 2.0 if own.target.backend != "eager" else self._eager
        if ratio is None:
            return Unmeasured("ERROR", "eager does not take it")
        around = Estimate(ratio, 0.97 * ratio, 1.03 * ratio)
        return RatioMeasured(around, around, 0.01 * ratio, 0.01, 20)


@pytest.mark.parametrize(
    ("eager", "said"), [(1.0, "slow"), (1.4, "other work"), (2.0, "other work"), (None, "other work")]
)
def test_a_twin_is_no_evidence_where_eager_takes_longer_too(checker: Checker, eager: float | None, said: str) -> None:
    case = case_of(checker, "images")
    own, other = (Side(case, Target("inductor"), words) for words in ("images", "another dtype"))
    row = answered(Scripted(checker, eager), own, other, "dtype", 1.5)
    assert row.conclusion == said and bool(row.found) == (said == "slow") and bool(row.problem) == (said != "slow")
