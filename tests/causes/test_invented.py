"""No cause hides a new bug: a few of the invented failures of `benchmarks/causes.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from driftline.causes import builtin
from driftline.checking.checker import Checker

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import causes as invented

QUICK = ("openvino: a @ b.T of int32, off-by-one", "onnxruntime: torch.argmin(a, 1) of int8, off-by-one")


def test_there_are_enough() -> None:
    assert len({one.name for one in invented.INVENTED}) >= invented.ENOUGH
    compilers = {one.compiler for one in invented.INVENTED}
    assert compilers == {"executorch", "inductor", "iree", "onnxruntime", "openvino", "torchscript", "tvm"}


@pytest.mark.parametrize(
    "one",
    [pytest.param(one, id=one.name, marks=() if one.name in QUICK else pytest.mark.slow) for one in invented.INVENTED],
)
def test_a_fault_beside_what_is_known_is_a_new_bug(one: invented.Invented, checker: Checker) -> None:
    row = invented.run(one, checker, builtin())
    if not row.asked and one.name not in QUICK:
        pytest.skip(row.reason)
    assert row.asked, row.reason
    assert not row.swallowed, f"{row.causes}: {row.reason}"
