"""Programs that call functions of their own kind: higher-order operators, compiled parts, operators of their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_programs import Program

from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.program import SourceBundle
from driftline.core.target import parse_targets
from driftline.oracle.judge import Reference
from driftline.oracle.references.base import NoExactReference
from driftline.programs.source import live_from_source

COND = "torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))"
LOOP = "while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y.sin()), (torch.tensor(0), x))[1]"
SCAN = "scan(lambda c, y: (c + y, c * y), torch.zeros(4), x.expand(3, 4), dim=0)[1]"
ATTENTION = "flex_attention(*x.reshape(1, 1, 1, 4).expand(3, 1, 1, 16, 4), score_mod=lambda s, b, h, i, j: s + i - j)"
COMPILED = "torch.compile(lambda y: y.exp(), backend=refuse)(x)"


def bundle(body: str, header: str = "") -> SourceBundle:
    lines = (
        "import torch",
        "from torch._higher_order_ops.scan import scan",
        "from torch._higher_order_ops.while_loop import while_loop",
        "from torch.nn.attention.flex_attention import flex_attention",
        "def refuse(graph, inputs):\n    raise RuntimeError('compiled')",
        header,
        f"def f(x):\n    return {body}",
        "def program():\n    return f, (torch.rand(4) + 1,)",
    )
    return SourceBundle("p.py", "program", {"p.py": "\n".join(lines)})


def reference_of(checker: Checker, made: SourceBundle) -> Reference:
    opened = open_source(made, checker.pool, CheckOptions())
    sample = Inputs(opened.example, "example")
    return checker.reference(Case(opened.program, (sample,), tuple(parse_targets("eager")), CheckOptions()))


@pytest.mark.parametrize("body", [COND, LOOP, SCAN, ATTENTION, COMPILED])
def test_program_that_compiles_a_part_of_itself_has_an_exact_reference(checker: Checker, body: str) -> None:
    reference = reference_of(checker, bundle(body))
    assert not reference.problem
    (sample,) = reference.samples
    assert sample.exact is not None, sample.note


def test_operations_of_a_branch_are_judged() -> None:
    def function(p: torch.Tensor, x: torch.Tensor) -> Any:
        return torch.cond(p, lambda y: y.sin(), lambda y: y.cos(), (x,))

    program = Program(function, torch.tensor(True), torch.rand(8))
    assert not program.judge(program.native).finding
    outputs = program.copy()
    outputs["output"][3] *= 1.001
    assert program.judge(outputs).finding


def test_program_that_can_be_called_once_has_no_reference(checker: Checker) -> None:
    once = "calls = []\n\ndef g(x):\n    calls.append(x)\n    assert len(calls) < 2\n    return x + 1"
    reference = reference_of(checker, bundle("g(x)", once))
    assert "called a second time, the program raises AssertionError" in reference.problem


def test_program_that_defines_operators_can_be_loaded_again() -> None:
    header = 'own = torch.library.Library("driftline_test", "DEF")\nown.define("thrice(Tensor x) -> Tensor")\n'
    header += 'own.impl("thrice", lambda x: x * 3, "CompositeExplicitAutograd")'
    made = bundle("torch.ops.driftline_test.thrice(x)", header)
    for _ in range(2):
        live = live_from_source(made, "", 0)
        assert live.function(torch.ones(2)).tolist() == [3, 3]


def test_tensors_of_other_classes_have_no_shadow() -> None:
    with pytest.raises(NoExactReference, match="NestedTensor"):
        Program(lambda x: torch.nested.nested_tensor([x, x[:1]], layout=torch.jagged).sin().values(), torch.rand(3, 2))
