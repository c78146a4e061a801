"""Pooling of many windows at a time gives what the reference evaluator's own gives, bit for bit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from onnx.reference.ops import op_pool_common

from driftline.programs.onnx.pool import pool, quick_pooling

Drawn = tuple[tuple[Any, ...], dict[str, Any]]


def drawn(kind: str, dtype: type, seed: int) -> Drawn:
    """A call as the evaluator makes it: padded with NaN where padding does not count."""
    rng = np.random.default_rng([seed, len(kind), np.dtype(dtype).itemsize])
    rank = int(rng.integers(1, 4))
    sizes, kernel = rng.integers(3, 9, rank), rng.integers(1, 4, rank)
    strides, dilations = rng.integers(1, 4, rank), rng.integers(1, 3, rank)
    before, after = (np.array([int(rng.integers(0, size)) for size in kernel]) for _ in range(2))
    counted = int(rng.integers(2))
    x = (rng.standard_normal((2, 2, *sizes)) * 100).astype(dtype)
    around = [(0, 0), (0, 0), *zip(before, after, strict=True)]
    padded = np.pad(x, around, constant_values=0 if counted and kind != "MAX" else np.nan)
    room = (sizes + before + after - 1 - (kernel - 1) * dilations) / strides + 1
    out = np.maximum(room.astype(int), 0)
    pads = [*before, *after]
    given = (padded, x.shape, list(kernel), list(strides), list(out), kind)
    more = {"pads_required": pads, "pads": pads, "dilations": list(dilations), "count_include_pad": counted}
    return given, {**more, "p": 1 + seed % 3}


def outcome(function: Any, call: Drawn) -> Any:
    """The bits, or the sort of error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = function(*call[0], **call[1])
        except Exception as error:
            return type(error)
    return made.dtype, made.shape, made.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kind", ["AVG", "LPPOOL", "MAX"])
def test_the_bits_are_those_of_the_evaluator(kind: str, dtype: type) -> None:
    sizes = set()
    for seed in range(40):
        call = drawn(kind, dtype, seed)
        expected = outcome(op_pool_common.pool, call)
        assert outcome(pool, call) == expected, call[0][1:]
        if isinstance(expected, tuple):
            sizes.add(expected[1])
    assert len(sizes) > 20, "hardly any call came to a result"


def test_a_window_of_the_sizes_at_which_numpy_adds_otherwise() -> None:
    """numpy adds up to eight numbers one by one, more of them in eight sums, and many in halves."""
    for size in (7, 8, 9, 40, 130, 300):
        x = np.random.default_rng(size).standard_normal((1, 2, size + 3)).astype(np.float32)
        x[0, 0, 1] = np.nan  # as padding: the windows that hold it are shorter
        call: Drawn = ((x, x.shape, [size], [1], [4], "AVG"), {})
        assert outcome(pool, call) == outcome(op_pool_common.pool, call), size


def test_the_evaluator_is_as_it_was_after_the_block() -> None:
    before = op_pool_common.pool
    with quick_pooling():
        assert op_pool_common.pool is pool
    assert op_pool_common.pool is before is not pool
