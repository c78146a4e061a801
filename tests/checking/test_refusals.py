"""A compiler that refuses what its own plainest form takes has a bug; one that refuses it there too has not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from driftline.checking.batch import Screening
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.checking.refusals import ASKED, plain_form, rejection_key, worth_asking
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.execution import Failure, Outcome, Stage
from driftline.core.plugins import load_plugins
from driftline.core.program import Program, file_digest
from driftline.core.target import Target, parse_targets
from driftline.core.tensors import TensorSpec
from driftline.core.verdict import Judgement, Kind
from driftline.execute.pool import Pool

PLUGIN = str(Path(__file__).with_name("refusing_compilers.py"))
X = np.float32([-1, 0, 2])


@pytest.fixture(autouse=True)
def plugin() -> None:
    load_plugins([PLUGIN])


def case(folder: Path, operator: str, target: str) -> Case:
    path = folder / f"{operator}.onnx"
    text = f'<ir_version: 8, opset_import: ["": 18]> g (float[3] x) => (float[3] y) {{ y = {operator}(x) }}'
    onnx.save(onnx.parser.parse_model(text), str(path))
    program = Program(
        "onnx", "onnx", file_digest(path), path, operator, inputs=(TensorSpec("x", "float32", (3,)),), outputs=("y",)
    )
    return Case(program, (Inputs({"x": X}, "test"),), (Target.parse(target),), CheckOptions(plugins=(PLUGIN,)))


def test_refusing_what_the_plainest_form_takes_is_a_failure(checker: Checker, tmp_path: Path) -> None:
    (result,) = checker.check(case(tmp_path, "Relu", "refuses-when-optimised")).results
    assert (result.verdict.judgement, result.verdict.kind) == (Judgement.FAIL, Kind.ERROR)
    assert (result.execution.outcome, result.execution.stage) == (Outcome.ERROR, Stage.COMPILE)
    assert result.execution.taken_by == "refuses-when-optimised:opt=off"
    assert "refuses-when-optimised:opt=off takes and runs it" in result.verdict.reason
    assert result.failed_runs == (2, 2)
    (result,) = checker.check(case(tmp_path, "Neg", "refuses-when-optimised")).results
    assert result.verdict.judgement is Judgement.PASS


def test_onnxruntime_is_not_excused_by_its_layout_optimiser(checker: Checker, tmp_path: Path) -> None:
    """On Arm, 1.31 turns a float16 AveragePool of opset 19 or later into a node without a kernel and calls it not
    implemented; with its optimisers off it runs. Elsewhere it passes, and must not be rejected either."""
    text = """<ir_version: 10, opset_import: ["": 22]>
        g (float16[1,2,5,5] x) => (float16[1,2,3,3] y) { y = AveragePool<kernel_shape=[3,3]>(x) }"""
    path = tmp_path / "pool.onnx"
    onnx.save(onnx.parser.parse_model(text), str(path))
    inputs = (TensorSpec("x", "float16", (1, 2, 5, 5)),)
    program = Program("onnx", "onnx", file_digest(path), path, "pool", inputs=inputs, outputs=("y",))
    sample = Inputs({"x": np.ones((1, 2, 5, 5), np.float16)}, "test")
    targets = (Target.parse("onnxruntime:opt=off"), Target.parse("onnxruntime"))
    plain, optimised = checker.check(Case(program, (sample,), targets, CheckOptions())).results
    assert plain.verdict.judgement is Judgement.PASS
    assert optimised.verdict.judgement in (Judgement.PASS, Judgement.FAIL)
    assert optimised.execution.taken_by == ("onnxruntime:opt=off" if optimised.verdict.kind is Kind.ERROR else "")


@pytest.mark.parametrize("target", ["refuses-always", "refuses-always:opt=off"])
def test_what_is_not_supported_at_all_is_rejected(checker: Checker, tmp_path: Path, target: str) -> None:
    (result,) = checker.check(case(tmp_path, "Relu", target)).results
    assert result.verdict.judgement is Judgement.REJECTED
    assert not result.execution.taken_by


def test_a_batch_asks_the_plainest_form_too(pool: Pool) -> None:
    requests = [ProgramRequest("graph", "relu", number, ("random",), "0") for number in range(3)]
    with Screening(pool, "onnx", plugins=(PLUGIN,)) as screening:
        wrong = screening.screen(requests, Target("refuses-when-optimised"))
        refused = screening.screen(requests, Target("refuses-always"))
        known = {rejection_key(refused[0].reason): ASKED}
        believed = screening.screen(requests, Target("refuses-when-optimised"), heard=known)
    assert {(result.judgement, result.kind, result.stage) for result in wrong} == {("fail", "error", "COMPILE")}
    assert {result.judgement for result in refused} == {"rejected"}
    assert {result.judgement for result in believed} == {"rejected"}, "a hunt believes what it heard often"


def test_who_is_asked() -> None:
    words, own = Failure("RuntimeError", "Relu is not supported"), Failure("Unsupported", "no float8 here")
    assert str(plain_form(Target.parse("tvm:passes=FuseOps"), words)) == "tvm:opt=0"
    assert str(plain_form(Target.parse("onnxruntime@1.15.1"), words)) == "onnxruntime@1.15.1:opt=off"
    assert plain_form(Target.parse("onnxruntime:opt=off"), words) is None, "there is nothing plainer"
    assert plain_form(Target.parse("onnxruntime"), own) is None, "our own word is believed"
    assert plain_form(Target.parse("xla"), words) is None
    said = [(number, f"not supported: size {number}") for number in range(10)]
    assert len(list(worth_asking(said, None))) == 10
    assert list(worth_asking(said, {})) == list(range(ASKED))


UNSUPPORTED = """
import torch


@torch.library.custom_op("test_refusals::bump_", mutates_args={"x"})
def bump_(x: torch.Tensor) -> None:
    x.add_(1)


def complex_input():
    return (lambda z: z.real + 1), (torch.tensor([1 + 2j]),)


def complex_result():
    return (lambda x: torch.fft.fft(x)), (torch.ones(4),)


def own_operator():
    def forward(x):
        y = x.clone()
        bump_(y)
        return y

    return forward, (torch.ones(3),)


def quantised_type():
    return (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize()), (torch.ones(3),)
"""


@pytest.mark.parametrize("name", ["complex_input", "complex_result", "own_operator", "quantised_type"])
def test_types_and_operators_without_an_entry_are_rejected(name: str, tmp_path: Path, checker: Checker) -> None:
    path = tmp_path / "unsupported.py"
    path.write_text(UNSUPPORTED)
    opened = open_program(f"{path}:{name}", checker.pool, CheckOptions())
    targets = tuple(parse_targets("onnxruntime,tvm"))
    outcome = checker.check(Case(opened.program, (Inputs(opened.example, "example"),), targets, CheckOptions()))
    assert [row.verdict.judgement for row in outcome.results] == [Judgement.REJECTED] * 2
