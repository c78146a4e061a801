"""Memory that a compiler returns without having written it is wrong in every run, and is called that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from driftline.campaign.check.session import check_program
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.checking.unwritten import follows_memory
from driftline.core.case import CheckOptions
from driftline.core.evidence import Element, Evidence, Fault
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.sentences import failing
from driftline.core.target import parse_targets
from driftline.core.verdict import Kind
from driftline.oracle.judge import Reference, ReferenceSample
from driftline.report.titles import title_of
from driftline.store import Bug, Store

# ONNX Runtime writes the first row of the product of a matrix and an empty vector alone.
PRODUCT = "g (float[3,0] a, float[0] b) => (float[3] y) { y = MatMul(a, b) }"
# This one is wrong in the same way whatever memory holds: beta is ignored.
CONSTANT = "g (float[3,0] a, float[0,4] b, float[3,4] c) => (float[3,4] y) { y = Gemm<beta = -1.0>(a, b, c) }"


def found(checker: Checker, folder: Path, text: str) -> Bug:
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> {text}'), str(path))
    options = CheckOptions()
    with Store.create(folder / "store") as store:
        opened = open_program(str(path), checker.pool, options)
        targets = parse_targets("onnxruntime")
        result = check_program(checker, store, opened, targets=targets, inputs="random", options=options)
    (bug,) = result.bugs.values()
    return bug


def test_memory_that_was_never_written_is_named(checker: Checker, tmp_path: Path) -> None:
    bug = found(checker, tmp_path, PRODUCT)
    assert title_of(bug) == "MatMul returns uninitialised memory where 0 is right"
    assert bug.fingerprint.detail == "uninitialised-memory in matmul of float"
    assert "2 of 3 elements are wrong, and hold what the memory held before" in bug.summary


def test_bug_of_unwritten_memory_goes_by_its_operators_alone(checker: Checker, tmp_path: Path) -> None:
    """Whether it shows as a number or as NaN is chance, and it is hardly ever about the width of the numbers."""
    wider = found(checker, tmp_path, PRODUCT.replace("float[", "double["))
    assert wider.fingerprint.detail == "uninitialised-memory in matmul of float"
    assert wider.fingerprint.kind == Kind.WRONG_VALUE


def test_result_that_is_wrong_whatever_memory_holds_is_a_wrong_number(checker: Checker, tmp_path: Path) -> None:
    bug = found(checker, tmp_path, CONSTANT)
    assert bug.fingerprint.detail == "gemm of float"
    assert "uninitialised" not in title_of(bug)


def ran(*numbers: float) -> Execution:
    return Execution("any", Outcome.OK, Stage.RUN, ({"renamed": np.array(numbers, dtype=np.float32)},))


@pytest.mark.parametrize(
    ("again", "other", "follows"),
    [
        ((0.0, 3.0), (0.0, 0.75), True),
        ((0.0, 3.0), (0.0, 3.0), False),  # the same whatever memory holds
        ((0.0, 5.0), (0.0, 0.75), False),  # another one each time: chance
        ((7.0, 3.0), (8.0, 0.75), True),  # elements that are not wrong are not looked at
    ],
)
def test_wrong_elements_must_follow_what_memory_holds(
    again: tuple[float, ...], other: tuple[float, ...], follows: bool
) -> None:
    wrong = Evidence(output="y", worst=(Element((1,), 0.0, 3.0),), faults=(Fault.NUMBER,))
    verdict = failing(Kind.WRONG_VALUE, wrong)
    reference = Reference((ReferenceSample({"y": np.zeros(2, np.float32)}),))
    assert follows_memory(verdict, reference, [ran(0.0, 3.0), ran(*again)], ran(*other)) is follows
