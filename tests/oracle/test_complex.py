"""Complex numbers: what arithmetic makes of NaN and infinities is open, and everything else is judged."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch_programs import Program

from driftline.oracle.specification import COMPLEX_NONFINITE

INF, NAN = float("inf"), float("nan")
ODD = torch.tensor([complex(INF, 1), complex(1, 2)])


@pytest.mark.parametrize(
    ("part", "got"), [(torch.Tensor.imag.__get__, 2.0), (torch.Tensor.real.__get__, INF), (torch.abs, INF)]
)
def test_sum_of_infinities_may_be_taken_part_by_part(part: Callable[..., torch.Tensor], got: float) -> None:
    """Eager multiplies the second summand with 1+0j first, and has NaN beside the infinity."""
    program = Program(lambda x: part(x + x), ODD)
    outputs = program.copy()
    outputs["output"][0] = got
    judged = program.judge(outputs)
    assert judged.finding is None
    assert judged.unspecified in ((), (COMPLEX_NONFINITE,))


@pytest.mark.parametrize("got", [3.0, -INF])
def test_sum_of_infinities_is_not_anything(got: float) -> None:
    program = Program(lambda x: (x + x).imag, ODD)
    outputs = program.copy()
    outputs["output"][0] = got
    assert program.judge(outputs).finding


ARITHMETIC: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "mul": lambda x: x * x,
    "div": lambda x: x / x,
    "exp": torch.exp,
    "sqrt": torch.sqrt,
    "reciprocal": torch.reciprocal,
    "angle": lambda x: torch.polar(x.angle(), x.angle()),
    "prod": lambda x: x.reshape(2, 1).prod(1),
    "sum": lambda x: x.reshape(2, 1).sum(1),
    "matmul": lambda x: x.reshape(2, 1) @ torch.ones(1, 1, dtype=x.dtype),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_only_what_meets_an_infinity_is_open(name: str) -> None:
    program = Program(lambda x: torch.view_as_real(ARITHMETIC[name](x)), ODD)
    outputs = program.copy()
    outputs["output"][0] = NAN
    assert program.judge(outputs).finding is None
    outputs["output"][-1] *= 1.001
    assert program.judge(outputs).finding


@pytest.mark.parametrize("function", [torch.prod, torch.var, torch.std, torch.mean, torch.sum])
def test_reductions_of_complex_numbers_are_judged(function: Callable[..., torch.Tensor]) -> None:
    torch.manual_seed(0)
    program = Program(lambda x: function(x, dim=0), torch.randn(6, 3, dtype=torch.complex64))
    assert program.judge(program.native).finding is None
    outputs = program.copy()
    outputs["output"] = outputs["output"] * 1.001
    assert program.judge(outputs).finding
