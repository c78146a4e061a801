"""Custom operators: the operator's own kernel is the reference, and the rest is judged around the operator."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_called_functions import bundle
from torch_programs import Program

from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.target import parse_targets
from driftline.core.verdict import Judgement, Verdict


@torch.library.custom_op("driftline_own::relu", mutates_args=())
def single(x: torch.Tensor) -> torch.Tensor:
    """No relu, whatever the name says, and for float32 alone."""
    assert x.dtype == torch.float32
    return torch.from_numpy(np.cbrt(x.numpy()))


@torch.library.custom_op("driftline_own::sort", mutates_args=())
def ranked(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    order = np.argsort(x.numpy(), kind="stable")
    return torch.from_numpy(x.numpy()[order]), torch.from_numpy(order)


@torch.library.custom_op("driftline_own::scale_", mutates_args={"x"})
def scale(x: torch.Tensor) -> None:
    np.multiply(x.numpy(), np.float32(1.5), out=x.numpy())


@torch.library.custom_op("driftline_own::noisy", mutates_args=())
def noisy(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(x.shape)


@torch.library.custom_op("driftline_own::stepped", mutates_args=())
def stepped(x: torch.Tensor) -> torch.Tensor:
    return torch.round(x * 64) / 64


@torch.library.triton_op("driftline_own::open", mutates_args={})
def looked_into(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


def scaled_rows(x: torch.Tensor) -> torch.Tensor:
    y = x.exp()
    scale(y[1:])
    return y * 2


PROGRAMS = {
    "own dtype": lambda x: single(x.sin()).exp(),
    "choice": lambda x: torch.cat([ranked(x.exp().ravel())[0], x.ravel()[ranked(x.exp().ravel())[1]]]),
    "in place": scaled_rows,
    "random": lambda x: noisy(x.exp()).sin(),
    "looked into": lambda x: looked_into(x.exp()).sin(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_fault_behind_a_custom_operator_is_found(name: str) -> None:
    torch.manual_seed(0)
    program = Program(PROGRAMS[name], torch.rand(4, 8))
    if name == "random":
        assert program.tape.draws
        program.native = {key: value.astype(np.float32) for key, value in program.exact.items()}
    assert not program.judge(program.native).finding
    outputs = program.copy()
    outputs["output"].reshape(-1)[3] *= 1.001
    assert program.judge(outputs).finding


@pytest.mark.parametrize("name", ["own dtype", "in place"])
def test_rounding_before_a_custom_operator_is_legal(name: str) -> None:
    x = torch.rand(4, 8)
    program = Program(PROGRAMS[name], x)
    nearby = {"output": PROGRAMS[name](x * (1 + 2.0**-24 * torch.randn(4, 8)).float()).numpy()}
    assert not program.judge(nearby).finding
    assert program.shadow(4, None).unruled


def test_step_inside_a_kernel_may_fall_to_either_side() -> None:
    x, w = torch.randn(64, 64), torch.randn(64, 64)
    program = Program(lambda a, b: stepped((a @ b).tanh()), x, w)
    other_order = stepped((x.flip(1) @ w.flip(0)).tanh())
    assert not program.judge({"output": other_order.numpy()}).finding
    gross = program.copy()
    gross["output"][0, 0] += 1 / 16
    assert program.judge(gross).finding


OPERATOR = """
import numpy as np
@torch.library.custom_op("driftline_told::op", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.cbrt(x.numpy()))
"""
FAKE = "\n@op.register_fake\ndef _(x):\n    return torch.empty_like(x)\n"


def verdict_on(target: str, checker: Checker, header: str) -> Verdict:
    opened = open_source(bundle("op(x.sin()).exp()", header), checker.pool, CheckOptions())
    sample = Inputs(opened.example, "example")
    case = Case(opened.program, (sample,), tuple(parse_targets(target)), CheckOptions())
    (result,) = checker.check(case).results
    return result.verdict


def test_verdict_says_what_it_is_judged_around(checker: Checker) -> None:
    found = verdict_on("aot_eager", checker, OPERATOR + FAKE)
    assert found.judgement is Judgement.PASS
    assert "judged around driftline_told::op: the operator's own kernel is the reference" in found.reason


def test_operator_without_a_fake_kernel_is_rejected(checker: Checker) -> None:
    assert verdict_on("aot_eager", checker, OPERATOR).judgement is Judgement.REJECTED
