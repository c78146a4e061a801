"""Programs that draw random numbers are known by their operators, whether they repeat themselves or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx.parser
import pytest
import torch
from torch_programs import Program

from driftline.checking.checker import Checker
from driftline.checking.open import open_program, open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.program import SourceBundle
from driftline.core.target import parse_targets
from driftline.inputs.make import InputMaker


def drawn_after_a_seed(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return x + torch.randn(4)


def drawn_by_a_generator(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(4, generator=torch.Generator().manual_seed(5))


def drawn_in_a_fork(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return torch.nn.functional.dropout(x, 0.5, training=True)


def test_gradients_are_not_random(checker: Checker) -> None:
    """The weights of their sum are drawn, always alike; a failure in random numbers is never explained."""
    text = "import torch\n\ndef program():\n    return torch.exp, (torch.ones(3),)\n"
    opened = open_source(SourceBundle("p.py", "program", {"p.py": text}), checker.pool, CheckOptions())
    sample, options = Inputs(opened.example, "example"), CheckOptions(grad=True)
    assert not checker.reference(Case(opened.program, (sample,), tuple(parse_targets("eager")), options)).random


@pytest.mark.parametrize("function", [drawn_after_a_seed, drawn_by_a_generator, drawn_in_a_fork])
def test_seeded_draws_are_recorded(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert Program(function, torch.rand(4)).tape.draws


@pytest.mark.parametrize("function", [torch.nn.functional.dropout, torch.nn.functional.rrelu])
def test_layers_that_do_not_train_draw_nothing(function: Callable[..., torch.Tensor]) -> None:
    assert not Program(lambda x: function(x, training=False), torch.rand(4)).tape.draws


@pytest.mark.parametrize(
    "body",
    [
        "p = Sigmoid(x) y = Bernoulli<seed = 1.0>(p)",
        "r = RandomNormalLike<seed = 5.0>(x) y = Add(x, r)",
        "r = RandomUniform<shape = [4]>() y = Add(x, r)",
        "ratio = Constant<value_float = 0.5>() t = Constant<value = bool {1}>() y = Dropout<seed = 3>(x, ratio, t)",
    ],
)
def test_onnx_model_that_draws_is_random(checker: Checker, tmp_path: Path, body: str) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 18]> g (float[4] x) => (float[4] y) {{ {body} }}'
    (tmp_path / "m.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    opened = open_program(str(tmp_path / "m.onnx"), checker.pool, CheckOptions())
    sample = InputMaker(opened.program.inputs, {}, opened.known).random(0, 0)
    assert isinstance(sample, Inputs)
    case = Case(opened.program, (sample,), tuple(parse_targets("onnxruntime")), CheckOptions())
    outcome = checker.check(case)
    assert outcome.reference.random
    (row,) = outcome.results
    assert row.verdict.judgement == "inconclusive" and "draws random numbers" in row.verdict.reason
