"""The plan of an input, before its numbers are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from driftline.core.tensors import Array, TensorSpec


@dataclass(frozen=True)
class InputPlan:
    """A tensor to be filled. `values` says what it may hold:

    any; `index:N` integers in [0, N); `wrapped:N` integers in [-N, N); `distinct:N` distinct integers in [0, N) along
    the last axis; `below:N` amounts in [0, N); `range:A:B` integers in [A, B]; `positive` floats above zero; `unit`
    floats in [0, 1]; `nonzero`; `like` numbers in the range of the example; `exact` the example itself.

    Some rules are about whole rows: `mask` ones and then zeros, never zeros alone; `padding` the opposite; `flags`
    zeros and ones, never zeros alone; `positions:A` A, A + 1, ...
    """

    spec: TensorSpec
    values: str = "any"
    example: Array | None = None
