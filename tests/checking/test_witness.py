"""ONNX models have two references; what neither knows is judged around."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, save

from driftline.campaign.check.session import check_program
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.checking.reference_sources import EVALUATOR, PLAYER
from driftline.checking.result import CheckResult
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.core.verdict import Judgement
from driftline.programs.onnx.cut import CONTRIB, CONTRIB_IN_STANDARD_DOMAIN
from driftline.store import Store

ORT = Target("onnxruntime")


def model(nodes: list[NodeProto], output: str, rank: int = 2, **weights: np.ndarray) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 8])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["?"] * rank)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    domains = {node.domain for node in nodes} - {""}
    opsets = [helper.make_opsetid("", 18), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def checked(made: ModelProto, folder: Path, checker: Checker) -> CheckResult:
    save(made, str(folder / "model.onnx"))
    options = CheckOptions()
    opened = open_program(str(folder / "model.onnx"), checker.pool, options)
    with Store.create(folder / "store") as store:
        return check_program(checker, store, opened, targets=[ORT], options=options)


def test_a_small_model_is_evaluated_by_the_standard(checker: Checker, tmp_path: Path) -> None:
    result = checked(model([helper.make_node("Tanh", ["x"], ["y"])], "y"), tmp_path, checker)
    assert result.outcome.reference.by == EVALUATOR.words
    assert result.results[0].verdict.judgement is Judgement.PASS


def test_what_the_standard_does_not_know_is_played_on_torch(checker: Checker, tmp_path: Path) -> None:
    gelu = helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")
    result = checked(model([gelu], "y"), tmp_path, checker)
    assert result.outcome.reference.by == PLAYER.words
    assert result.results[0].verdict.judgement is Judgement.PASS
    assert any(PLAYER.words in note for note in result.notes)


def test_a_big_model_is_played_on_torch(checker: Checker, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((8, 1 << 16)).astype(np.float32)
    result = checked(model([helper.make_node("MatMul", ["x", "w"], ["y"])], "y", w=weights), tmp_path, checker)
    assert result.outcome.reference.by == PLAYER.words
    assert result.results[0].verdict.judgement is Judgement.PASS


@pytest.mark.parametrize("change", [lambda a: a.T, lambda a: a.astype(np.float64)], ids=["shape", "dtype"])
def test_no_compiler_is_accused_where_the_references_disagree(
    checker: Checker, tmp_path: Path, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    outcome = checked(model([helper.make_node("Tanh", ["x"], ["y"])], "y"), tmp_path, checker).outcome
    (sample,) = outcome.reference.samples
    wrong = replace(sample, native={name: change(array) for name, array in sample.native.items()})
    again = checker.check(outcome.case, known_reference=replace(outcome.reference, samples=(wrong,)))
    verdict = again.results[0].verdict
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert "disagree" in verdict.reason


def test_operators_of_unknown_meaning_are_judged_around(checker: Checker, tmp_path: Path) -> None:
    nodes = [helper.make_node("Tanh", ["x"], ["a0"])]
    for number in range(20):
        nodes.append(helper.make_node("Magic", [f"a{number}"], [f"m{number}"], domain="my.vendor"))
        nodes.append(helper.make_node("Exp" if number % 2 else "Neg", [f"m{number}"], [f"a{number + 1}"]))
    nodes.append(helper.make_node("Tanh", ["a20"], ["y"]))
    result = checked(model(nodes, "y"), tmp_path, checker)
    assert result.results[0].verdict.judgement is Judgement.INCONCLUSIVE, "y depends on what nobody computed"
    assert any("20 x my.vendor.Magic" in note for note in result.notes)
    assert result.results[0].verdict.reason.startswith("without 20 x my.vendor.Magic: judged 0 of 1 outputs")
    assert set(result.outcome.case.program.outputs) == {"y", *(f"a{number}" for number in range(20))}
    assert result.outcome.case.program.operators.count("Identity") == 20


def test_a_result_of_another_type_becomes_an_input(checker: Checker, tmp_path: Path) -> None:
    nodes = [helper.make_node("Magic", ["x"], ["m"], domain="my.vendor"), helper.make_node("Tanh", ["m"], ["y"])]
    made = model(nodes, "y", rank=1)
    made.graph.value_info.append(helper.make_tensor_value_info("m", TensorProto.FLOAT, [5]))
    result = checked(made, tmp_path, checker)
    assert [spec.name for spec in result.outcome.case.program.inputs] == ["x", "m"]
    assert result.results[0].verdict.judgement is Judgement.INCONCLUSIVE
    assert "judged 0 of 1 outputs" in result.results[0].verdict.reason


def test_nothing_known_is_one_sentence(checker: Checker, tmp_path: Path) -> None:
    made = model([helper.make_node("Magic", ["x"], ["y"], domain="my.vendor")], "y")
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.INT64, [5]))
    with pytest.raises(DriftlineError, match="no node whose meaning is known"):
        checked(made, tmp_path, checker)


def test_the_list_of_contrib_operators_is_the_players() -> None:
    from driftline.programs.onnx.player.call import MICROSOFT, OPERATORS
    from driftline.programs.onnx.player.player import OnnxPlayer  # noqa: F401  importing it registers them

    assert {name for domain, name in OPERATORS if domain == MICROSOFT} == CONTRIB
    assert all(("", name) in OPERATORS for name in CONTRIB_IN_STANDARD_DOMAIN)
