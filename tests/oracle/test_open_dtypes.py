"""What a clause leaves open can be replaced in every dtype, in each of the ways that the shadow replaces it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from driftline.oracle.shadow.torch_open import ALTERNATIVES, open_elements, replaced

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
