"""Planted and real bugs are found where they are: by the operator, in programs of the size of real ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from large_models import RESNET, TRANSFORMER

from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.plugins import load_plugins
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.core.verdict import Judgement
from driftline.diagnose.localize.ladder import rungs
from driftline.diagnose.localize.localizer import localize_case
from driftline.diagnose.localize.part import part, units
from driftline.diagnose.localize.result import Localization
from driftline.diagnose.localize.stretches import RecordedRun
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph, ProgramLeaf, ProgramNode, ValueType
from driftline.diagnose.reduce.reducer import DoesNotFail
from driftline.diagnose.reduce.signature import Signature
from driftline.diagnose.reduce.values import Values
from driftline.testing import planted_plugin

WRONG_VALUE = Signature("RUN", "wrong-value")


@pytest.fixture(scope="module", autouse=True)
def planted() -> None:
    load_plugins([planted_plugin()])


def case_of(checker: Checker, text: str, target: str) -> Case:
    options = CheckOptions(plugins=(planted_plugin(),))
    opened = open_source(SourceBundle("model.py", "program", {"model.py": dedent(text)}), checker.pool, options)
    return Case(opened.program, (Inputs(opened.example, "example"),), (Target.parse(target),), options)


def localized(
    checker: Checker, text: str, target: str, signature: Signature = WRONG_VALUE, budget: float = 300
) -> Localization:
    return localize_case(checker, case_of(checker, text, target), signature, budget=budget)


def ops(found: Localization) -> list[list[str]]:
    return [[operator.op for operator in suspect.operators] for suspect in found.suspects]


def test_a_pattern_in_a_residual_network(checker: Checker) -> None:
    small = RESNET.replace("BLOCKS, WIDTH, ODD = 28, 4, 17", "BLOCKS, WIDTH, ODD = 6, 4, 3")
    found = localized(checker, small, "planted-wrong-pattern:pattern=add+sigmoid")
    assert ops(found) == [["Add", "Sigmoid"]]
    assert found.operators == 6 * 7 + 4
    assert found.explained


@pytest.mark.slow
def test_a_pattern_in_a_residual_network_of_200_nodes(checker: Checker) -> None:
    found = localized(checker, RESNET, "planted-wrong-pattern:pattern=add+sigmoid")
    assert found.operators == 200
    assert ops(found) == [["Add", "Sigmoid"]]
    assert [operator.place for operator in found.suspects[0].operators] == [17 * 7 + 5, 17 * 7 + 6]
    assert found.explained
    assert found.queries < 40


@pytest.mark.slow
def test_an_operator_in_a_transformer(checker: Checker) -> None:
    found = localized(checker, TRANSFORMER, "planted-wrong-on:op=softsign")
    assert found.operators >= 150
    assert ops(found) == [["torch.nn.functional.softsign"]]
    assert found.explained
    assert found.queries < 40
    (suspect,) = found.suspects
    assert suspect.result.verdict.judgement is Judgement.FAIL
    assert suspect.result.failed_runs == (2, 2)


CHAIN = """
    import torch
    def model(x):
        for _ in range(4):
            x = torch.relu(torch.tanh(x + 0.5) * 2)
        return x
    def program():
        return model, (torch.linspace(-2, 2, 6),)
"""


def test_all_of_a_kind_are_one_suspect(checker: Checker) -> None:
    found = localized(checker, CHAIN, "planted-wrong-on:op=tanh")
    assert ops(found) == [["torch.tanh"]]
    assert found.suspects[0].operators[0].place == 1
    assert found.suspects[0].alike == 3
    assert found.explained


def test_what_takes_results_apart_stays_with_its_operator(checker: Checker) -> None:
    text = """
        import torch
        def model(x):
            values, places = torch.max(torch.sin(x), dim=1)
            first, second = torch.split(torch.cos(x), 2, dim=1)
            return torch.abs(values - 1) + places, first * second
        def program():
            return model, (torch.linspace(-2, 2, 12).reshape(3, 4),)
    """
    assert ops(localized(checker, text, "planted-wrong-on:op=abs")) == [["torch.abs"]]
    assert ops(localized(checker, text, "planted-wrong-on:op=cos")) == [["torch.cos"]]


def test_a_wrong_nan_in_the_middle_is_a_wrong_number_at_the_end(checker: Checker) -> None:
    text = """
        import torch
        def model(x):
            return torch.nan_to_num(torch.exp(torch.sqrt(x)), nan=7.0).sum()
        def program():
            return model, (torch.tensor([-1.0, 4.0]),)
    """
    found = localized(checker, text, "planted-wrong-on:op=sqrt")
    assert ops(found) == [["torch.sqrt"]]


RELU_CLIP = """
    import numpy as np
    from onnx import parser
    MODEL = '''
    <ir_version: 8, opset_import: ["": 18]>
    squash (double[4] x) => (double[4] y) <double low = {-0.5}, double high = {2.0}> {
        scaled = Mul(x, high)
        positive = Relu(scaled)
        clipped = Clip(positive, low, high)
        y = Sub(clipped, low)
    }
    '''
    def program():
        return parser.parse_model(MODEL), {"x": np.array([-4.0, 0.25, 1.5, 9.0])}
"""


def failure(checker: Checker, case: Case) -> Signature:
    (result,) = checker.check(case).results
    assert result.verdict.judgement is Judgement.FAIL
    return Signature.of_verdict(result.execution, result.verdict)


def test_a_fusion_is_found_although_its_values_cannot_be_outputs(checker: Checker) -> None:
    """Relu and Clip are merged only when nothing else reads what is between them."""
    case = case_of(checker, RELU_CLIP, "onnxruntime")
    found = localize_case(checker, case, failure(checker, case), budget=900)
    assert ops(found) == [["Relu", "Clip"]]
    assert found.observer == "with every value as an output the whole program passes"
    assert str(found.target) == "onnxruntime:opt=basic"
    assert [rung.answer for rung in found.rungs] == ["pass", "same"]


def test_a_converted_program_is_taken_apart_as_the_compiler_is_given_it(checker: Checker) -> None:
    """OpenVINO narrows int64, which shows in any operator; torch.onnx writes what it is given."""
    text = """
        import torch
        def model(x):
            return torch.abs(x) - 7
        def program():
            return model, (torch.tensor([-(2**40) - 5, 3]),)
    """
    case = case_of(checker, text, "openvino")
    found = localize_case(checker, case, failure(checker, case), budget=900)
    assert found.form == "ONNX graph made by torch.onnx"
    assert ops(found)[0] == ["Abs"]


def test_what_passes_is_not_localised(checker: Checker) -> None:
    with pytest.raises(DoesNotFail, match="does not fail in the same way"):
        localized(checker, CHAIN, "planted-wrong-on:op=softmax")


def test_the_budget_ends_it(checker: Checker) -> None:
    found = localized(checker, CHAIN, "planted-wrong-on:op=tanh", budget=0.0)
    assert not found.suspects
    assert "budget" in found.note
    assert found.rungs[-1].wrong


def test_ladders_end_at_the_target_itself() -> None:
    assert [str(rung) for rung in rungs(Target.parse("inductor:freezing=true"))] == [
        "eager",
        "aot_eager",
        "aot_eager_decomp",
        "inductor:freezing=true",
    ]
    assert [str(rung) for rung in rungs(Target.parse("onnxruntime:opt=extended"))] == ["onnxruntime:opt=extended"]
    assert [str(rung) for rung in rungs(Target.parse("planted-wrong-on"))] == ["planted-wrong-on"]


# -- values that do not all fit ----------------------------------------------------------------------------------------


class Sums:
    """A graph in which each node adds one to what the node before it made, and what runs it."""

    def __init__(self, folder: Path, length: int) -> None:
        self.values = Values(folder)
        self.folder = folder
        self.ran: list[int] = []
        kind = ValueType("float64", (4,))
        leaf = ProgramLeaf(0, kind, self.values.save([np.zeros(4)]))
        nodes = tuple(ProgramNode("plus one", (at,), (at + 1,)) for at in range(length))
        self.graph = ProgramGraph((leaf,), nodes, (length,))

    def evaluate(self, graph: ProgramGraph) -> Evaluated:
        data = {leaf.number: leaf.data for leaf in graph.leaves}
        for node in graph.nodes:
            self.ran.append(node.outputs[0])
            data[node.outputs[0]] = self.values.save([self.values.load(data[node.operands[0]])[0] + 1])
        return Evaluated(graph, dict.fromkeys(data, ValueType("float64", (4,))), data)

    def kept(self) -> int:
        return sum(1 for _ in self.folder.iterdir())


def test_values_are_dropped_and_computed_again(tmp_path: Path) -> None:
    sums = Sums(tmp_path / "values", 100)
    run = RecordedRun(sums.graph, sums.evaluate, sums.folder, stretch=10, room=15 * 32)
    assert len(run.types) == 101
    assert sums.kept() < 25
    sums.ran.clear()
    run.require([37])
    leaf = run.leaf(37)
    assert leaf is not None
    assert sums.values.load(leaf.data)[0].tolist() == [37.0] * 4
    assert max(sums.ran) == 37
    sums.ran.clear()
    window = part(run, range(37, 40), largest_constant=None)
    assert window is not None
    assert not sums.ran
    assert [leaf.number for leaf in window.leaves] == [37]
    assert window.outputs == (40,)


def test_units_and_outputs_of_a_part() -> None:
    kind = ValueType("float32", (2,))
    leaf = ProgramLeaf(0, kind, "data")
    nodes = (
        ProgramNode("split", (0,), (1,)),
        ProgramNode("operator.getitem", (1,), (2,), free=True),
        ProgramNode("sin", (0,), (3,)),
        ProgramNode("operator.getitem", (1,), (4,), free=True),
        ProgramNode("add", (2, 4), (5,)),
    )
    graph = ProgramGraph((leaf,), nodes, (5, 3))
    assert units(graph) == [(0, 1, 3), (2,), (4,)]
    types = {0: kind, 1: None, 2: kind, 3: kind, 4: kind, 5: kind}
    data = {number: f"value {number}" for number, known in types.items() if known}
    run = RecordedRun(graph, lambda small: Evaluated(small, types, data), Path("nowhere"))
    split = part(run, (0, 1, 3), largest_constant=None)
    assert split is not None
    assert split.outputs == (2, 4)
    # The second getitem alone needs what it takes apart, which is no tensor.
    alone = part(run, (3,), largest_constant=None)
    assert alone is not None
    assert [node.op for node in alone.nodes] == ["split", "operator.getitem"]
    assert alone.outputs == (4,)


def test_large_constants_become_inputs_of_written_programs() -> None:
    kind = ValueType("float32", (3, 2))
    graph = ProgramGraph((ProgramLeaf(0, kind, "w", constant=True),), (ProgramNode("sin", (0,), (1,)),), (1,))
    run = RecordedRun(graph, lambda small: Evaluated(small, {1: kind}, {1: "value"}), Path("nowhere"))
    for largest, constant in ((None, True), (6, True), (5, False)):
        written = part(run, (0,), largest_constant=largest)
        assert written is not None
        assert written.leaves == (replace(graph.leaves[0], constant=constant),)
