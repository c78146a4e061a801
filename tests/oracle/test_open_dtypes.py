"""What a clause leaves open can be replaced in every dtype, in each of the ways that the shadow replaces it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch_programs import Program

from driftline.oracle.references.base import NoExactReference
from driftline.oracle.shadow.torch.open import ALTERNATIVES, open_elements, replaced

INTEGERS = [
    torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32, torch.int64,
]  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_casts_out_of_range_are_open_and_replaced(dtype: torch.dtype) -> None:
    source = torch.tensor([float("nan"), 1e30, 3.0])
    result = torch.tensor([0, 1, 3]).to(dtype)
    clause, mask = open_elements(torch.ops.aten._to_copy.default, (source,), {"dtype": dtype}, result) or ("", None)
    assert (clause, mask.tolist()) == ("torch.cast-out-of-range", [True, True, False])
    for alternative in (*ALTERNATIVES, np.asarray([7, 8, 9]).astype(result.numpy().dtype)):
        other = replaced(result, mask, alternative)
        assert (other.dtype, other.tolist()[2]) == (dtype, 3)
    assert replaced(result, mask, np.asarray([7, 8, 9]).astype(result.numpy().dtype)).tolist() == [7, 8, 3]
    assert replaced(result, mask, 3, places=4).dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.complex64, torch.bool], ids=str)
def test_other_dtypes_are_replaced_too(dtype: torch.dtype) -> None:
    result, mask = torch.ones(3).to(dtype), torch.tensor([True, False, False])
    for alternative in ALTERNATIVES:
        assert replaced(result, mask, alternative).dtype == dtype


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_what_a_sort_picks_is_read_in_every_integer_dtype(dtype: torch.dtype) -> None:
    """The values come from the places that are chosen, and torch has no `gather` of some dtypes."""
    program = Program(lambda x: (x * 3.0).to(dtype).sort(dim=1), torch.tensor([[0.1, 7.3, 2.0], [5.5, 0.2, 1.1]]))
    assert program.judge(program.native).finding is None


@pytest.mark.parametrize(
    "small",
    [
        lambda x: torch.full((3,), 2.0, dtype=torch.float8_e5m2),
        lambda x: torch.empty(3, dtype=torch.float8_e5m2).copy_(x),
        lambda x: torch.zeros_like(x, dtype=torch.float8_e5m2).fill_(0.3),
        lambda x: torch.stack([x.to(torch.float8_e5m2), x.to(torch.float8_e5m2)])[0],
        lambda x: torch.zeros(3, dtype=torch.float8_e5m2).index_put_((torch.tensor([1]),), x[:1].to(torch.float8_e5m2)),
    ],
    ids=["full", "copied", "filled", "stacked", "put"],
)
def test_numbers_of_eight_bits_are_judged_or_said_to_have_no_shadow(small: Callable[..., torch.Tensor]) -> None:
    try:
        program = Program(lambda x: small(x).to(torch.float32) + x, torch.tensor([0.3, 1.7, 2.2]))
        assert program.judge(program.native).finding is None
    except NoExactReference as reason:
        assert "float8_e5m2" in str(reason)


def test_the_sign_of_a_nan_is_open_and_that_of_a_number_is_not() -> None:
    x = torch.tensor([float("nan"), -1.0, 2.0])
    program = Program(lambda x: (x * 2).signbit(), x)
    for sign in (True, False):
        assert program.judge({"output": np.array([sign, True, False])}).finding is None
    assert program.judge({"output": np.array([True, False, False])}).finding is not None
