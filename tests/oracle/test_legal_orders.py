"""Legal orders of summation that differ from torch's own in more than one element at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_programs import Program

from driftline.oracle.shadow.tape import contracted_terms


@pytest.mark.parametrize("seed", range(6))
def test_a_running_sum_may_carry_its_errors_along(seed: int) -> None:
    """Each row's errors point the same way: drawn one by one they would look like a bias."""
    x = torch.randn(32, 256, generator=torch.Generator().manual_seed(seed)) + 0.1
    program = Program(lambda x: torch.cumsum(x, -1), x)
    by_product = {"output": (x @ torch.ones(256, 256).triu()).numpy()}
    assert program.judge(by_product).finding is None


def test_a_running_sum_in_half_precision_is_found() -> None:
    x = torch.randn(32, 256, generator=torch.Generator().manual_seed(0)).half()
    program = Program(lambda x: torch.cumsum(x, -1), x)
    total, columns = torch.zeros(32, dtype=torch.float16), []
    for column in x.unbind(1):
        total = total + column
        columns.append(total)
    assert program.judge({"output": torch.stack(columns, 1).numpy()}).finding


@pytest.mark.parametrize("seed", range(4))
def test_an_einsum_of_three_may_be_one_long_sum(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((4, 16, 32), (32, 48), (4, 48, 24))
    a, b, c = (torch.randn(*shape, generator=generator) for shape in shapes)
    program = Program(lambda a, b, c: torch.einsum("bij,jk,bkl->bil", a, b, c), a, b, c)
    total = torch.zeros(4, 16, 24)
    for j in range(32):
        for k in range(48):
            total += a[:, :, j, None] * b[j, k] * c[:, None, k, :]
    assert program.judge({"output": total.numpy()}).finding is None


def test_the_terms_of_an_einsum_are_those_of_all_contracted_indices() -> None:
    a, b, c = torch.ones(2, 3), torch.ones(3, 5), torch.ones(5, 7)
    assert contracted_terms(("ij,jk,kl->il", a, b, c)) == 15
    assert contracted_terms(("ij,jk->ik", a, b)) == 0  # one product: its own rule knows


def test_an_infinity_from_a_divisor_that_rounds_to_zero_has_either_sign() -> None:
    c, d = (torch.tensor([value, 2.0], dtype=torch.bfloat16) for value in (1.4140625, 1.40625))
    program = Program(lambda c, d: 1.0 / (c * 1.43 - d * 1.43 + torch.tensor([0.0, 1.0])).bfloat16(), c, d)
    outputs = program.copy()
    assert np.isinf(outputs["output"].astype(np.float64)[0])  # both products round to the same number
    outputs["output"][0] = -outputs["output"][0]
    assert program.judge(outputs).finding is None
    outputs["output"][1] = np.inf
    assert program.judge(outputs).finding
