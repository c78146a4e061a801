"""What is known of an input before it has numbers."""

from __future__ import annotations

from dataclasses import dataclass

from driftline.core.tensors import Array, TensorSpec


@dataclass(frozen=True)
class InputPlan:
    """A tensor to be filled. `values` says what it may hold:

    any; `index:N` integers in [0, N); `wrapped:N` integers in [-N, N); `distinct:N` distinct integers in [0, N) along
    the last axis; `below:N` amounts in [0, N); `positive` floats above zero; `unit` floats in [0, 1]; `nonzero`;
    `like` numbers in the range of the example; `exact` the example itself.
    """

    spec: TensorSpec
    values: str = "any"
    example: Array | None = None
