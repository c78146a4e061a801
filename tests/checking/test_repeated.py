"""A compiled program is called again: with other inputs, once more with the first, and from several threads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from driftline.campaign.check.session import check_program, fingerprint
from driftline.checking.checker import Checker, TargetResult
from driftline.checking.open import open_program
from driftline.checking.repeated import RepeatedCalls
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.core.tensors import TensorSpec
from driftline.core.verdict import Judgement, Kind
from driftline.execute.pool import WorkerStartError
from driftline.inputs.other import other_inputs
from driftline.programs.onnx.parameters import parameter_inputs
from driftline.store import Store

PLUGIN = str(Path(__file__).with_name("forgetful_compilers.py"))
OPTIONS = CheckOptions(plugins=(PLUGIN,))


@pytest.fixture(autouse=True)
def plugin() -> None:
    load_plugins([PLUGIN])


def checked(
    checker: Checker, folder: Path, target: str, *, options: CheckOptions = OPTIONS
) -> tuple[TargetResult, list[int]]:
    """The row, and how many samples the cases have that were kept."""
    path = folder / "double.onnx"
    text = '<ir_version: 8, opset_import: ["": 18]> g (float[6] x) => (float[6] y) { y = Add(x, x) }'
    onnx.save(onnx.parser.parse_model(text), str(path))
    with Store.create(folder / "store") as store:
        opened = open_program(str(path), checker.pool, options)
        result = check_program(checker, store, opened, targets=[Target.parse(target)], inputs="random", options=options)
        kept = [len(store.load_case(store.bug(bug.id).findings[0].case_id).samples) for bug in result.bugs.values()]
    return result.results[0], kept


@pytest.mark.parametrize("target", ["keeps-first-input", "returns-old-buffer"])
def test_what_is_wrong_in_a_further_call_is_found(checker: Checker, tmp_path: Path, target: str) -> None:
    row, kept = checked(checker, tmp_path, target)
    assert (row.verdict.judgement, row.verdict.kind) == (Judgement.FAIL, Kind.WRONG_VALUE)
    assert row.verdict.reason.startswith("when it is called again: ")
    assert row.seen_in and fingerprint(row.seen_in.case, row).detail == "add after another call of float", "as in hunts"
    assert row.failed_runs == (2, 2)
    assert kept == [3]  # the case that is replayed has all three calls


def test_what_a_further_call_raises_is_found(checker: Checker, tmp_path: Path) -> None:
    row, kept = checked(checker, tmp_path, "dies-when-called-again")
    assert (row.verdict.judgement, row.verdict.kind) == (Judgement.FAIL, Kind.ERROR)
    assert "the workspace was given back" in row.verdict.reason
    assert kept == [3]


def test_threads_that_meet_are_found_when_asked_for(checker: Checker, tmp_path: Path) -> None:
    row, _ = checked(checker, tmp_path, "shares-buffer")
    assert row.verdict.judgement is Judgement.PASS
    row, kept = checked(checker, tmp_path, "shares-buffer", options=replace(OPTIONS, stress=True))
    assert (row.verdict.judgement, row.verdict.kind) == (Judgement.FAIL, Kind.WRONG_VALUE)
    assert kept == [1]


def test_a_sound_compiler_passes_under_stress(checker: Checker, tmp_path: Path) -> None:
    row, kept = checked(checker, tmp_path, "onnxruntime", options=replace(OPTIONS, stress=True))
    assert (row.verdict.judgement, kept) == (Judgement.PASS, [])


def test_a_program_that_keeps_state_is_no_fault_of_the_compiler(checker: Checker, tmp_path: Path) -> None:
    """A cache in a plain attribute, which nothing puts back between calls."""
    (tmp_path / "cached.py").write_text(
        """import torch

class Cached(torch.nn.Module):
    cache = 0.0

    def forward(self, x):
        self.cache = self.cache + x
        return self.cache * 2

def program():
    return Cached(), (torch.tensor([3.0, 1.0, 2.0]),)
"""
    )
    with Store.create(tmp_path / "store") as store:
        opened = open_program(f"{tmp_path / 'cached.py'}:program", checker.pool, OPTIONS)
        result = check_program(checker, store, opened, targets=[Target("eager")], options=OPTIONS)
    assert result.results[0].verdict.judgement is Judgement.PASS and not result.bugs


def test_other_inputs_keep_what_a_program_may_rely_on() -> None:
    def of(array: np.ndarray) -> np.ndarray | None:
        made = other_inputs([TensorSpec("x", array.dtype.name, array.shape)], {"x": array}, 0)
        return made["x"] if made else None

    matrix = np.float32([[2, 1], [1, 3]])
    turned = of(matrix)
    assert turned is not None and turned.tolist() == [[3, 1], [1, 2]]  # still positive definite
    limits = of(np.float32([0, 1, 2]))
    assert limits is not None and limits.tolist() == [0, 0.875, 1.75]  # still ascending
    assert of(np.zeros(3, np.float32)) is None
    indices = of(np.array([3, 0, 2, 1, 3, 0, 1, 2] * 4))
    assert indices is not None and indices.min() >= 0 and indices.max() <= 3
    offsets = np.array([0, 2, 5])
    assert of(offsets) is None
    mixed = other_inputs(
        [TensorSpec("x", "float32", (2,)), TensorSpec("i", "int64", (2,))],
        {"x": np.float32([2, -1]), "i": np.array([1, 0])},
        0,
    )
    assert mixed is not None and mixed["i"].tolist() == [1, 0]


def test_parameters_of_operators_stay_as_they_are(
    checker: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Smaller scales are another program, of which not even the shape is the same."""
    text = """<ir_version: 8, opset_import: ["": 18]>
        g (float[1,1,2,2] x, float[4] scales, int64[1] rows, int64[1] columns) => (float[N,M] y) {
            shape = Concat <axis = 0> (rows, columns)
            resized = Resize <mode = "nearest"> (x, , scales)
            y = Reshape (resized, shape)
        }"""
    model = onnx.parser.parse_model(text)
    assert parameter_inputs(model) == {"scales", "rows", "columns"}
    onnx.save(model, str(tmp_path / "resize.onnx"))
    program = open_program(str(tmp_path / "resize.onnx"), checker.pool, OPTIONS).program
    arrays = {
        "x": np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)[..., ::-1].copy(),
        "scales": np.float32([1, 1, 2, 3]),
        "rows": np.array([4]),
        "columns": np.array([6]),
    }
    case = Case(program, (Inputs(arrays, "example"),), (Target("onnxruntime"),), OPTIONS)
    between, last = RepeatedCalls(checker, case, checker.reference(case), 2).inputs(case.targets[0]).same_size
    changed = [name for name, array in arrays.items() if between.arrays[name].tobytes() != array.tobytes()]
    assert changed == ["x"] and last.arrays is arrays

    def cannot_start(*_: object, **__: object) -> None:
        raise WorkerStartError("no onnx here")

    monkeypatch.setattr(checker.pool, "run", cannot_start)
    assert set(checker.parameters(case)) == set(arrays), "where it cannot be found out, every input may be one"
