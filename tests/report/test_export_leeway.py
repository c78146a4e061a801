"""Scripts about results of which several are right: each right one passes, only another one fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from driftline.campaign.explain.exporting import subject_of
from driftline.campaign.explain.failing import find_failing
from driftline.campaign.explain.leeway import leeway_of
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.evidence import Element, Evidence
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.core.tensors import Arrays
from driftline.core.verdict import Kind
from driftline.oracle.judge import ReferenceSample
from driftline.oracle.outputs import ShadowAnswer
from driftline.oracle.shadow.decisions import OTHER_PLACES
from driftline.report.export.clean_run import run_clean
from driftline.report.export.script import Exported, export_script, export_test
from driftline.report.export.subject import Subject
from driftline.store import Store

PLUGIN = str(Path(__file__).with_name("compilers_to_export.py"))
MODEL = '<ir_version: 8, opset_import: ["": 18]> g (float[1,1,9] x) => (float[1,1,1] y) {{ y = {}(x) }}'
LARGEST = ["ReduceMax<keepdims = 1>", "MaxPool<kernel_shape = [9]>"]
CHOOSING = (
    '<ir_version: 8, opset_import: ["": 18]> g (float[3,4] x) => (int64[3] y)'
    " { t = Tanh(x) y = ArgMax<axis = 1, keepdims = 0>(t) }"
)


def exported(model: onnx.ModelProto, inputs: Arrays, target: str, folder: Path, checker: Checker) -> Subject:
    load_plugins([PLUGIN])
    onnx.save(model, str(folder / "model.onnx"))
    np.savez(folder / "inputs.npz", **inputs)  # type: ignore[arg-type]
    with Store.create(folder / "store") as store:
        failing = find_failing(
            str(folder / "model.onnx"), store, checker, target=Target.parse(target),
            inputs=str(folder / "inputs.npz"), options=CheckOptions(plugins=(PLUGIN,)),
        )  # fmt: skip
        return subject_of(store, checker, failing)


def with_results(script: Exported, results: str) -> str:
    """The script with other results in the place of the compiler's."""
    assert script.text.count("got = compiled(model, inputs)") == 1
    return script.text.replace("got = compiled(model, inputs)", f"got = {results}")


@pytest.mark.parametrize("operator", LARGEST)
def test_a_maximum_beside_nan_may_be_nan_or_the_largest_number(operator: str, checker: Checker, tmp_path: Path) -> None:
    x = np.array([[[5, 1, 15.5, 3, 4, 2, np.nan, 8, 6]]], np.float32)
    subject = exported(onnx.parser.parse_model(MODEL.format(operator)), {"x": x}, "drops-beside-nan", tmp_path, checker)
    assert export_script(subject).valid
    script = export_script(replace(subject, plainer=()))
    assert script.valid, f"{script.reason}\n{script.text}"
    assert "[0, 0, 0]: expected 15.5 or nan, got 8.0" in script.output, script.output
    for right in ("np.nan", "15.5"):
        assert run_clean(with_results(script, f"np.float32([[[[{right}]]]])")).status == 0
    assert run_clean(with_results(script, "np.float32([[[[7]]]])")).shows_bug
    assert export_test(subject).valid


def test_indices_that_rounding_decides_are_not_compared(checker: Checker, tmp_path: Path) -> None:
    """The last index is wrong whatever rounding does; of two numbers that are nearly equal, either is the largest."""
    x = np.array([[0.5, np.nextafter(np.float32(0.5), 1), 0, 0], [1, 2, 3, 4], [1, 2, 0, 0]], np.float32)
    subject = exported(onnx.parser.parse_model(CHOOSING), {"x": x}, "wrong-last-index", tmp_path, checker)
    script = export_script(subject)
    assert script.valid, f"{script.reason}\n{script.text}"
    for tied in (0, 1):
        assert run_clean(with_results(script, f"np.array([[{tied}, 3, 1]])")).status == 0
    assert run_clean(with_results(script, "np.array([[1, 3, 2]])")).shows_bug


def test_elements_that_overflow_on_one_side_alone_are_not_compared() -> None:
    native, exact = np.float32([1, np.nan, 3]), np.float64([1, 2, 3])

    def shadow(arithmetic: str, runs: int, outputs: Arrays | None) -> ShadowAnswer:
        return ShadowAnswer({"y": exact}, {"y": exact[np.newaxis]}, {"y": exact}, {"y": exact})

    sample = ReferenceSample({"y": native}, exact={"y": exact}, shadow=shadow)
    found = leeway_of(sample, Kind.WRONG_VALUE, Evidence(output="y", worst=(Element((2,), 3.0, 5.0),)), "")
    assert found and found.right == {(2,): (3.0,)}
    alike = ReferenceSample({"y": np.float32(exact)}, exact={"y": exact}, shadow=shadow)
    assert leeway_of(alike, Kind.WRONG_VALUE, Evidence(output="y", worst=(Element((2,), 3.0, 5.0),)), "") is None


def test_a_choice_among_choices_has_no_numbers_to_compare() -> None:
    indices, low = np.array([1, 2]), np.array([0, 2])

    def shadow(arithmetic: str, runs: int, outputs: Arrays | None) -> ShadowAnswer:
        return ShadowAnswer({"y": indices}, {"y": indices[np.newaxis]}, {"y": low}, {"y": indices}, choosing=("y",))

    sample = ReferenceSample({"y": indices}, exact={}, shadow=shadow)
    found = Evidence(output="y", worst=(Element((1,), 2, 0),))
    direct = leeway_of(sample, Kind.WRONG_VALUE, found, "")
    assert direct and direct.right == {(1,): (2,)}
    among_others = Evidence(output="y", worst=found.worst, invalid_choice=OTHER_PLACES)
    told = leeway_of(sample, Kind.WRONG_VALUE, among_others, "")
    assert told is not None and not told.right
