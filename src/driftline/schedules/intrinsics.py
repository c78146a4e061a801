"""Tensor intrinsics for `tensorize`: each is described by a small program and implemented by that same program.

So replacing a part of a function by an intrinsic changes nothing that it computes, on any processor. An intrinsic has
the length of the loop that it stands for.
"""

from __future__ import annotations

import textwrap
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from driftline.core.errors import StoreError
from driftline.schedules.trace import ScheduleStep

FATAL_FFI = ("0.1.15.post1", "0.1.15.post2")  # of apache-tvm-ffi

_HEAD = """
@T.prim_func(s_tir=True)
def {name}({parameters}):
    with T.sblock("root"):
        T.reads({reads})
        T.writes({writes})
        for i in range({length}):
            with T.sblock("u"):
                v = T.axis.{axis}({length}, i)
                {statement}
"""


def _row(name: str, dtype: str = "float32", shape: str = "{length},") -> str:
    return f'{name}: T.Buffer(({shape}), "{dtype}", offset_factor=1)'


def _dot(b: str, index: str, dtype: str, result: str, product: str) -> dict[str, str]:
    return {
        "parameters": f"{_row('a', dtype)}, {_row('b', dtype, b)}, {_row('c', result, '1,')}",
        "reads": f"c[0], a[0:{{length}}], b[{index}]",
        "writes": "c[0]",
        "axis": "reduce",
        "statement": f"c[0] = c[0] + {product}",
    }


_INTRINSICS: dict[str, dict[str, str]] = {
    "copy": {
        "parameters": f"{_row('a')}, {_row('c')}",
        "reads": "a[0:{length}]",
        "writes": "c[0:{length}]",
        "axis": "spatial",
        "statement": "c[v] = a[v]",
    },
    "fill": {
        "parameters": _row("c"),
        "reads": "",
        "writes": "c[0:{length}]",
        "axis": "spatial",
        "statement": "c[v] = T.float32(0)",
    },
    "dot": _dot("{length},", "0:{length}", "float32", "float32", "a[v] * b[v]"),
    "dot_column": _dot("{length}, 1", "0:{length}, 0", "float32", "float32", "a[v] * b[v, 0]"),
    "dot_int8": _dot("{length},", "0:{length}", "int8", "int32", 'T.Cast("int32", a[v]) * T.Cast("int32", b[v])'),
}
INTRINSICS = tuple(_INTRINSICS)


def intrinsic_name(step: ScheduleStep) -> str:
    """Return the name of the intrinsic that a `tensorize` step describes by a word and a length."""
    if step.word not in _INTRINSICS:
        raise StoreError(f"A trace has the intrinsic {step.word!r}, which this release of Driftline does not know.")
    return f"{step.word}_{int(step.numbers[0] or 0)}"


def intrinsic_text(step: ScheduleStep) -> str:
    """Return the program that both describes and implements the intrinsic, as TVMScript."""
    name = intrinsic_name(step)
    length = int(step.numbers[0] or 0)
    parts = {key: text.format(length=length) for key, text in _INTRINSICS[step.word].items()}
    return _HEAD.format(name=name, length=length, **parts).strip()


def intrinsic_lines(step: ScheduleStep) -> list[str]:
    """Return the lines of a script that register the intrinsic before the step."""
    name = intrinsic_name(step)
    return [*intrinsic_text(step).splitlines(), f'tvm.s_tir.TensorIntrin.register("{name}", {name}, {name})']


def register_intrinsic(step: ScheduleStep) -> None:
    """Register the intrinsic with the TVM of this process."""
    import tvm
    from tvm.script import tirx

    program: Any = tvm.script.from_source(textwrap.dedent(intrinsic_text(step)), {"T": tirx, "tvm": tvm})
    tvm.s_tir.TensorIntrin.register(intrinsic_name(step), program, program, override=True)


def tensorize_ends_the_process() -> bool:
    """True if every call of `tensorize` ends the process with the installed TVM, whatever the schedule."""
    try:
        return version("apache-tvm-ffi") in FATAL_FFI
    except PackageNotFoundError:
        return False
