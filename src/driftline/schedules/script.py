"""Writes a trace as a script of plain TVM that exits with 1 (or dies) when the schedule computes something wrong."""

from __future__ import annotations

from driftline.backends.tvm_passes import PLAIN_TARGET, SCRIPT_IMPORTS
from driftline.core.quoting import comment, string
from driftline.core.verdict import Kind
from driftline.schedules.functions import TensorFunction, function_of
from driftline.schedules.guarded import LARGEST
from driftline.schedules.intrinsics import intrinsic_lines
from driftline.schedules.passes import pipeline_lines
from driftline.schedules.primitives import line_of
from driftline.schedules.trace import ScheduleStep, Trace

_RUN = """
def run(module):
    rng = np.random.default_rng(0)
{tensors}\
    tvm.compile(module, {how})(*tensors)
    return [x.numpy() for x in tensors]
"""
_COMPARE = """
for expected, got in zip(run(func), run(s.mod)):
    {compare}
"""
# The arrays hold 1, and 99 stands beside them: of ones, a maximum is 1, too.
_GUARDED = """
rooms, tensors = [], []
for p in func.params:
    shape = [int(n) for n in p.shape]
    rooms.append(np.full(np.prod(shape) + 2048, 99, p.dtype))
    start = (-rooms[-1].ctypes.data % 64) // rooms[-1].itemsize + 1024
    tensors.append(rooms[-1][start:][: np.prod(shape)].reshape(shape))
tvm.compile(s.mod, {how})(*(tvm.runtime.from_dlpack(np.subtract(x, 98, out=x)) for x in tensors))
for room, x in zip(rooms, tensors):
    assert (room == 99).sum() - (x == 99).sum() == room.size - x.size, "wrote outside an array"
"""


def script_of(trace: Trace, *, kind: str = Kind.WRONG_VALUE, stage: str = "RUN", about: str = "") -> str:
    """Return the script. If the trace fails before it runs, the script ends with the failing call."""
    function = function_of(trace)
    lines = [f"# {comment(about)}"] if about else []
    lines += ["import numpy as np"] if stage == "RUN" else []
    lines += ["import tvm", *_imports(function, trace), ""]
    lines += [*pipeline_lines(trace), ""] if trace.passes is not None else []
    lines += [*function.lines(trace.sizes), ""]
    lines += ["s = tvm.s_tir.Schedule(func)", *(line for step in trace.steps for line in _step(step))]
    how = f"target={string(trace.target)}"
    if trace.passes is not None:
        how = f'target=tvm.target.Target({PLAIN_TARGET}), tir_pipeline="plain"'
    if stage == "COMPILE":
        lines.append(f"tvm.compile(s.mod, {how})")
    elif stage == "RUN" and kind == Kind.OUT_OF_BOUNDS:
        lines += _GUARDED.format(how=how).rstrip().splitlines()
    elif stage == "RUN":
        exact = "np.testing.assert_array_equal(got, expected)"
        near = f"np.testing.assert_array_max_ulp(got, expected, {function.ulps})"
        lines += _RUN.format(tensors=_tensors(function), how=how).rstrip().splitlines()
        lines += _COMPARE.format(compare=near if function.ulps else exact).rstrip().splitlines()
    return "\n".join(lines) + "\n"


def _step(step: ScheduleStep) -> list[str]:
    return [*(intrinsic_lines(step) if step.primitive == "tensorize" else ()), line_of(step)]


def _imports(function: TensorFunction, trace: Trace) -> list[str]:
    script = function.form == "script" or "tensorize" in trace.primitives
    return [
        *(["from tvm import te"] if function.form == "te" else []),
        *(["from tvm.script import tirx as T"] if script else []),
        *(SCRIPT_IMPORTS if trace.passes is not None else ()),
    ]


def _tensors(function: TensorFunction) -> str:
    """Return the lines that draw random arguments, with indices kept in range."""
    shape = "[int(n) for n in p.shape]"
    drawn = f"rng.integers(-{LARGEST}, {LARGEST + 1}, {shape}).astype(p.dtype)"
    if function.distinct:
        drawn = f"rng.permutation(int(np.prod({shape}))).reshape({shape}).astype(p.dtype)"
    if not function.index_below:
        return f"    tensors = [tvm.runtime.tensor({drawn}) for p in func.params]\n"
    limits = "".join(
        f"    arrays[{function.inputs.index(name)}] %= {size}\n" for name, size in function.index_below.items()
    )
    return (
        f"    arrays = [{drawn} for p in func.params]\n{limits}    tensors = [tvm.runtime.tensor(x) for x in arrays]\n"
    )
