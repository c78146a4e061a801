"""Which torch operations are recorded as their parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from driftline.oracle.shadow.torch.quantised import quantised_parts
from driftline.oracle.shadow.torch.rules import name_of

# Operations with a rule or a clause of their own.
_RULED = ("addmm", "addcmul", "baddbmm", "embedding_dense_backward", "avg_pool2d", "var_mean", "var", "std")
_WITH_CLAUSES = ("elu_backward", "grid_sampler", "hardswish_backward", "hardtanh_backward", "upsample")


def _addcdiv(
    start: torch.Tensor, numerator: torch.Tensor, denominator: torch.Tensor, *, value: float = 1
) -> torch.Tensor:
    """Compute the quotient first, and then multiply. Eager torch multiplies first, which is legal too, also where it
    overflows."""
    quotient = numerator / denominator
    return start + (quotient if value == 1 else value * quotient)


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions used for recording: every composition that a compiler may decompose, except those with
    a rule or clause for the whole operation."""
    table = {**own_decompositions(), **quantised_parts()}
    return {
        op: parts
        for op, parts in table.items()
        if name_of(op) not in _RULED and not name_of(op).startswith(_WITH_CLAUSES)
    }


@cache
def own_decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of torch's own operators, which need no further import."""
    from torch._decomp import core_aten_decompositions, get_decompositions

    aten = torch.ops.aten
    table = dict(core_aten_decompositions())
    table.update(
        get_decompositions(
            [
                aten._softmax, aten._log_softmax, aten._softmax_backward_data, aten._log_softmax_backward_data,
                aten.native_layer_norm, aten.native_layer_norm_backward, aten.native_batch_norm,
                aten.native_batch_norm_backward, aten._native_batch_norm_legit,
                aten._native_batch_norm_legit_no_training, aten._native_batch_norm_legit_functional,
                aten._batch_norm_with_update, aten._batch_norm_with_update_functional, aten._batch_norm_no_update,
                aten.batch_norm_backward,
                aten.native_group_norm, aten.native_group_norm_backward, aten.gelu, aten.gelu_backward, aten.silu,
                aten._safe_softmax, aten._scaled_dot_product_flash_attention_for_cpu, aten.logsumexp,
                aten.linalg_vector_norm, aten.native_dropout, aten.mse_loss, aten.nll_loss_forward,
            ]  # type: ignore[list-item]
        )
    )  # fmt: skip
    table[aten.addcdiv.default] = _addcdiv
    return table
