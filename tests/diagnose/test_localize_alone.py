"""Single operators are asked first: one that fails by itself is found at once, however large the program is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.evidence import Fault
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.diagnose.localize.alone import side_by_side
from driftline.diagnose.localize.localizer import localize_case
from driftline.diagnose.localize.result import Localization
from driftline.diagnose.reduce.graph import ProgramGraph, ProgramLeaf, ProgramNode, ValueType
from driftline.diagnose.reduce.signature import Signature

PLUGINS = (str(Path(__file__).with_name("reduce_backends.py")),)
LONG = ["Tanh", "Neg", "Sigmoid", "Abs"] * 9


@pytest.fixture(scope="module", autouse=True)
def backends() -> None:
    load_plugins(PLUGINS)


def localized(
    checker: Checker, folder: Path, kinds: list[str], target: str, fault: Fault | None = None
) -> Localization:
    names = ["x", *(f"v{at}" for at in range(len(kinds)))]
    nodes = [helper.make_node(kind, [names[at]], [names[at + 1]]) for at, kind in enumerate(kinds)]
    ends: list[Any] = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "test", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, str(folder / "model.onnx"))
    program = open_program(str(folder / "model.onnx"), checker.pool, CheckOptions()).program
    sample = Inputs({"x": np.linspace(-1, 1, 4, dtype=np.float32)}, "given")
    case = Case(program, (sample,), (Target.parse(target),), CheckOptions(plugins=PLUGINS))
    signature = Signature("RUN", "wrong-value", fault=fault)
    return localize_case(checker, case, signature, budget=900)


def test_an_operator_that_fails_alone_is_found_first(checker: Checker, tmp_path: Path) -> None:
    kinds = [*LONG[:20], "Erf", *LONG[20:]]
    found = localized(checker, tmp_path, kinds, "odd-needs:kinds=Erf", Fault.NUMBER)
    assert found.lone and found.explained
    assert [suspect.title for suspect in found.suspects] == ["Erf"]
    assert found.suspects[0].operators[0].place == 20
    assert found.queries <= 6, "all kinds at once, this one alone, the ladder, the check, and the rest"


def test_where_no_operator_fails_alone_the_program_is_taken_apart(checker: Checker, tmp_path: Path) -> None:
    kinds = [*LONG[:20], "Erf", "Softplus", *LONG[20:]]
    found = localized(checker, tmp_path, kinds, "odd-flow")
    assert not found.lone
    assert [suspect.title for suspect in found.suspects] == ["Erf + Softplus"]


def test_operators_side_by_side_are_independent() -> None:
    """One makes what the other reads; together they must not become a chain."""
    kind = ValueType("float32", (2,))
    first = ProgramGraph((ProgramLeaf(0, kind, "a"),), (ProgramNode("Erf", (0,), (1,)),), (1,))
    second = ProgramGraph((ProgramLeaf(1, kind, "b"),), (ProgramNode("Tanh", (1,), (2,)),), (2,))
    together, makers = side_by_side({7: first, 8: second})
    assert makers == [7, 8]
    assert [node.inputs for node in together.nodes] == [(0,), (1,)]
    assert {leaf.number: leaf.data for leaf in together.leaves} == {0: "a", 1: "b"}
    assert not {n for node in together.nodes for n in node.outputs} & {0, 1, 2}
