"""The rules of other projects, on the same outputs: does each call this one wrong?

All of them compare with the unoptimised run; `torch._dynamo.utils.same` also looks at a float64 run.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch._dynamo.utils import same

from driftline.core.tensors import Array
from driftline.programs.torch_tensors import tensor_from_array

# What PyTorch's own benchmark runner passes to `same`.
_SAME_TOLERANCE = {"float64": 1e-4, "float32": 1e-4, "float16": 1e-3, "bfloat16": 1e-3}
_TABLE = {"float64": 1e-5, "float32": 1e-5, "float16": 1e-2, "bfloat16": 1e-1}


@dataclass(frozen=True)
class Pair:
    """An output, the unoptimised run's, and the float64 one."""

    got: Array
    native: Array
    exact: Array

    @property
    def dtype(self) -> str:
        return self.native.dtype.name


def alarms(pair: Pair) -> list[str]:
    """The rules that call this output wrong."""
    with np.errstate(all="ignore"):
        return [name for name, wrong in PEERS.items() if wrong(pair)]


def _beyond(pair: Pair, relative: float, absolute: float) -> bool:
    close = np.isclose(
        pair.got.astype(np.float64), pair.native.astype(np.float64), rtol=relative, atol=absolute, equal_nan=True
    )
    return not bool(close.all())


def _allclose(relative: float, absolute: float) -> Callable[[Pair], bool]:
    return lambda pair: _beyond(pair, relative, absolute)


def _testing(pair: Pair) -> bool:
    try:
        torch.testing.assert_close(tensor_from_array(pair.got), tensor_from_array(pair.native), equal_nan=True)
    except AssertionError:
        return True
    return False


def _dynamo(pair: Pair) -> bool:
    tensors = [tensor_from_array(array) for array in (pair.native, pair.got, pair.exact)]
    with _silence():
        return not same(*tensors, tol=_SAME_TOLERANCE[pair.dtype], equal_nan=True)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """It logs every disagreement as an error."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _polygraphy(pair: Pair) -> bool:
    """An element passes by its absolute or by its relative error."""
    got, native = pair.got.astype(np.float64), pair.native.astype(np.float64)
    error = np.abs(got - native)
    bad = ~(error <= 1e-5) & ~(error / np.abs(native) <= 1e-5)
    return bool((bad & ~(np.isnan(got) & np.isnan(native)) & (got != native)).any())


PEERS: dict[str, Callable[[Pair], bool]] = {
    "torch.testing.assert_close": _testing,
    "torch._dynamo.utils.same": _dynamo,
    "NNSmith (rtol 1e-2, atol 1e-3)": _allclose(1e-2, 1e-3),
    "Polygraphy (1e-5 abs or rel)": _polygraphy,
    "a table by dtype (1e-5, 1e-2, 1e-1)": lambda pair: _beyond(pair, _TABLE[pair.dtype], _TABLE[pair.dtype]),
    "allclose 1e-3": _allclose(1e-3, 1e-5),
    "allclose 1e-5": _allclose(1e-5, 1e-5),
}
