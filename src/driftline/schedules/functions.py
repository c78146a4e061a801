"""Tensor programs that are known to be right (the tests compare each with numpy), as text of plain TVM.

Blocks of one role have one name, so that a trace can be tried on a simpler function: `Y` writes the output, `P` pads or
prepares, `M` and `S` are reductions on the way. Sizes are Python variables of the text. The simplest functions come
first.

Inputs are small integers, so that sums and products are exact in float32 in any order and every difference is a
finding. `ulps` is what a function may be off that divides: contraction into fused operations may round once less.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean
from driftline.schedules.trace import Trace

UNEVEN, EVEN = (3, 5, 17), (4, 8, 16)


@dataclass(frozen=True)
class TensorFunction:
    """A tensor program. Its text defines the arguments of a PrimFunc, or the PrimFunc itself (form `script`)."""

    name: str
    kind: str  # its name in the identity of a bug
    text: str
    inputs: tuple[str, ...]
    sizes: tuple[str, ...]
    outputs: tuple[str, ...] = ("Y",)
    form: str = "te"
    index_below: Mapping[str, str] | None = None  # inputs that hold indices, and the size that they stay below
    distinct: bool = False  # equal numbers would make the result depend on the order
    bias_only: bool = False  # its epilogue is linear
    ulps: int = 0
    least: int = 2  # the smallest size that makes sense
    most: int = 17

    def lines(self, sizes: Mapping[str, int]) -> list[str]:
        """Return the lines of plain TVM code that define the function and bind it to `func`."""
        told = textwrap.dedent(self.text).strip().splitlines()
        if self.sizes:
            values = ", ".join(str(sizes[name]) for name in self.sizes)
            told.insert(0, f"{', '.join(self.sizes)} = {values}")
        if self.form == "te":
            told.append(f"func = te.create_prim_func([{', '.join((*self.inputs, *self.outputs))}])")
        return told


def _te(name: str, kind: str, inputs: str, sizes: str, text: str, **more: object) -> TensorFunction:
    return TensorFunction(name, kind, text, tuple(inputs.split()), tuple(sizes.split()), **more)  # type: ignore[arg-type]


FUNCTIONS: tuple[TensorFunction, ...] = (
    _te("scale", "elementwise", "A", "n m", """
        A = te.placeholder((n, m), name="A")
        Y = te.compute((n, m), lambda i, j: A[i, j] * 2.0 + 1.0, name="Y")
    """),
    _te("transpose", "elementwise", "A", "n m", """
        A = te.placeholder((n, m), name="A")
        Y = te.compute((m, n), lambda i, j: A[j, i] + 1.0, name="Y")
    """),
    _te("broadcast", "elementwise", "A B", "n m", """
        A, B = te.placeholder((n, 1), name="A"), te.placeholder((m,), name="B")
        Y = te.compute((n, m), lambda i, j: A[i, 0] * B[j], name="Y")
    """),
    _te("row_sum", "reduction", "A", "n m", """
        A, r = te.placeholder((n, m), name="A"), te.reduce_axis((0, m), name="r")
        Y = te.compute((n,), lambda i: te.sum(A[i, r], axis=r), name="Y")
    """),
    _te("all_sum", "reduction", "A", "n m", """
        A = te.placeholder((n, m), name="A")
        r, q = te.reduce_axis((0, n), name="r"), te.reduce_axis((0, m), name="q")
        Y = te.compute((1,), lambda i: te.sum(A[r, q], axis=[r, q]), name="Y")
    """),
    _te("row_max", "reduction", "A", "n m", """
        A, r = te.placeholder((n, m), name="A"), te.reduce_axis((0, m), name="r")
        Y = te.compute((n,), lambda i: te.max(A[i, r], axis=r), name="Y")
    """),
    _te("matmul", "reduction", "A B", "n m k", """
        A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
        r = te.reduce_axis((0, k), name="r")
        Y = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="Y")
    """),
    _te("batch_matmul", "reduction", "A B", "b n m k", """
        A, B = te.placeholder((b, n, k), name="A"), te.placeholder((b, m, k), name="B")
        r = te.reduce_axis((0, k), name="r")
        Y = te.compute((b, n, m), lambda h, i, j: te.sum(A[h, i, r] * B[h, j, r], axis=r), name="Y")
    """, most=8),
    _te("int8_dot", "reduction", "A B", "n m k", """
        A, B = te.placeholder((n, k), "int8", name="A"), te.placeholder((m, k), "int8", name="B")
        r = te.reduce_axis((0, k), name="r")
        Y = te.compute((n, m), lambda i, j: te.sum(
            A[i, r].astype("int32") * B[j, r].astype("int32"), axis=r), name="Y")
    """),
    _te("two_steps", "elementwise chain", "A", "n m", """
        A = te.placeholder((n, m), name="A")
        P = te.compute((n, m), lambda i, j: A[i, j] * 2.0, name="P")
        Y = te.compute((n, m), lambda i, j: P[i, j] + 1.0, name="Y")
    """),
    _te("shifted", "elementwise chain", "A", "n m", """
        A = te.placeholder((n, m + 2), name="A")
        P = te.compute((n, m + 2), lambda i, j: A[i, j] * 2.0, name="P")
        Y = te.compute((n, m), lambda i, j: P[i, j] + P[i, j + 2], name="Y")
    """),
    _te("transposed_chain", "elementwise chain", "A B", "n m", """
        A, B = te.placeholder((n, m), name="A"), te.placeholder((m,), name="B")
        P = te.compute((m, n), lambda i, j: A[j, i] + B[i], name="P")
        Y = te.compute((n, m), lambda i, j: P[j, i] * 2.0, name="Y")
    """),
    _te("concat", "elementwise chain", "A B", "n m", """
        A, B = te.placeholder((n, m), name="A"), te.placeholder((n, m), name="B")
        P = te.compute((2 * n, m), lambda i, j: te.if_then_else(
            i < n, A[te.min(i, n - 1), j], B[te.max(i - n, 0), j]), name="P")
        Y = te.compute((2 * n, m), lambda i, j: P[i, j] * 3.0, name="Y")
    """),
    _te("gather", "gather", "A I", "n m k", """
        A, I = te.placeholder((n, m), name="A"), te.placeholder((k,), "int32", name="I")
        P = te.compute((n, m), lambda i, j: A[i, j] + 1.0, name="P")
        Y = te.compute((k, m), lambda i, j: P[I[i], j], name="Y")
    """, index_below={"I": "n"}),
    _te("matmul_bias", "reduction chain", "A B C", "n m k", """
        A, B, C = (te.placeholder(s, name=x) for s, x in (((n, k), "A"), ((k, m), "B"), ((m,), "C")))
        r = te.reduce_axis((0, k), name="r")
        M = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="M")
        Y = te.compute((n, m), lambda i, j: M[i, j] + C[j], name="Y")
    """, bias_only=True),
    _te("matmul_relu", "reduction chain", "A B", "n m k", """
        A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
        P, r = te.compute((k, m), lambda i, j: B[i, j] + 1.0, name="P"), te.reduce_axis((0, k), name="r")
        M = te.compute((n, m), lambda i, j: te.sum(A[i, r] * P[r, j], axis=r), name="M")
        Y = te.compute((n, m), lambda i, j: te.max(M[i, j], 0.0), name="Y")
    """),
    _te("two_matmuls", "reduction chain", "A B", "n m k", """
        A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
        r, q = te.reduce_axis((0, k), name="r"), te.reduce_axis((0, m), name="q")
        M = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="M")
        Y = te.compute((n, k), lambda i, j: te.sum(M[i, q] * B[j, q], axis=q), name="Y")
    """),
    _te("max_pool", "reduction chain", "A", "n m", """
        A, r = te.placeholder((n, m), name="A"), te.reduce_axis((0, 3), name="r")
        P = te.compute((n, m + 2), lambda i, j: te.if_then_else((j >= 1) & (j < m + 1), A[i, j - 1], -1000.0), name="P")
        Y = te.compute((n, m), lambda i, j: te.max(P[i, j + r], axis=r), name="Y")
    """),
    _te("conv1d", "reduction chain", "A B", "n m k", """
        A, B = te.placeholder((n, m), name="A"), te.placeholder((k, n, 3), name="B")
        P = te.compute((n, m + 2), lambda i, j: te.if_then_else((j >= 1) & (j < m + 1), A[i, j - 1], 0.0), name="P")
        r, q = te.reduce_axis((0, n), name="r"), te.reduce_axis((0, 3), name="q")
        Y = te.compute((k, m), lambda i, j: te.sum(P[r, j + q] * B[i, r, q], axis=[r, q]), name="Y")
    """),
    _te("conv2d", "reduction chain", "A B", "n m k", """
        A, B = te.placeholder((n, m, m), name="A"), te.placeholder((k, n, 3, 3), name="B")
        P = te.compute((n, m + 2, m + 2), lambda c, i, j: te.if_then_else(
            te.all(i >= 1, i < m + 1, j >= 1, j < m + 1), A[c, i - 1, j - 1], 0.0), name="P")
        r, p, q = (te.reduce_axis((0, e), name=x) for e, x in ((n, "r"), (3, "p"), (3, "q")))
        Y = te.compute((k, m, m), lambda c, i, j: te.sum(P[r, i + p, j + q] * B[c, r, p, q], axis=[r, p, q]), name="Y")
    """, most=8),
    _te("depthwise", "reduction chain", "A B", "n m", """
        A, B = te.placeholder((n, m, m), name="A"), te.placeholder((n, 3, 3), name="B")
        P = te.compute((n, m + 2, m + 2), lambda c, i, j: te.if_then_else(
            te.all(i >= 1, i < m + 1, j >= 1, j < m + 1), A[c, i - 1, j - 1], 0.0), name="P")
        p, q = te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 3), name="q")
        Y = te.compute((n, m, m), lambda c, i, j: te.sum(P[c, i + p, j + q] * B[c, p, q], axis=[p, q]), name="Y")
    """, most=8),
    _te("argmax", "argmax", "A J", "n m", """
        A, J = te.placeholder((n, m), name="A"), te.placeholder((n, m), "int32", name="J")
        pick = te.comm_reducer(
            lambda x, y: (te.if_then_else(x[1] >= y[1], x[0], y[0]), te.if_then_else(x[1] >= y[1], x[1], y[1])),
            lambda a, b: (tvm.tirx.const(-1, a), tvm.te.min_value(b)), name="pick")
        r = te.reduce_axis((0, m), name="r")
        Y, Z = te.compute((n,), lambda i: pick((J[i, r], A[i, r]), axis=r), name="Y")
    """, outputs=("Y", "Z"), distinct=True),
    _te("softmax", "normalisation", "A", "n m", """
        A = te.placeholder((n, m), name="A")
        r, q = te.reduce_axis((0, m), name="r"), te.reduce_axis((0, m), name="q")
        M = te.compute((n,), lambda i: te.max(A[i, r], axis=r), name="M")
        P = te.compute((n, m), lambda i, j: tvm.tirx.exp2(A[i, j] - M[i]), name="P")
        S = te.compute((n,), lambda i: te.sum(P[i, q], axis=q), name="S")
        Y = te.compute((n, m), lambda i, j: P[i, j] / S[i], name="Y")
    """, ulps=4),
    _te("layer_norm", "normalisation", "A B", "n m", """
        A, B = te.placeholder((n, m), name="A"), te.placeholder((m,), name="B")
        r, q = te.reduce_axis((0, m), name="r"), te.reduce_axis((0, m), name="q")
        M = te.compute((n,), lambda i: te.sum(A[i, r], axis=r), name="M")
        S = te.compute((n,), lambda i: te.sum(A[i, q] * A[i, q], axis=q), name="S")
        Y = te.compute((n, m), lambda i, j: (
            m * A[i, j] - M[i]) / te.sqrt(m * S[i] - M[i] * M[i] + 1.0) * B[j], name="Y")
    """, ulps=8),
    _te("prefix_sum", "scan", "A", "n m", """
        @T.prim_func(s_tir=True)
        def func(A: T.Buffer((n, m), "float32"), Y: T.Buffer((n, m), "float32")):
            for i, j in T.grid(n, m):
                with T.sblock("Y"):
                    vi, vj = T.axis.spatial(n, i), T.axis.opaque(m, j)
                    T.reads(A[vi, vj], Y[vi, T.max(vj - 1, 0)])
                    T.writes(Y[vi, vj])
                    Y[vi, vj] = A[vi, vj] + T.if_then_else(vj > 0, Y[vi, T.max(vj - 1, 0)], T.float32(0.0))
    """, form="script"),
    _te("in_place", "in place", "A", "n m", """
        @T.prim_func(s_tir=True)
        def func(A: T.Buffer((n, m), "float32"), Y: T.Buffer((n, m), "float32")):
            for i, j in T.grid(n, m):
                with T.sblock("P"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Y[vi, vj] = A[vi, vj] * T.float32(2.0)
            for i, j in T.grid(n, m):
                with T.sblock("Y"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Y[vi, vj] = Y[vi, vj] + T.float32(1.0)
    """, form="script"),
)  # fmt: skip
_BY_NAME = {one.name: one for one in FUNCTIONS}
NAMES = tuple(_BY_NAME)


def function_named(name: str) -> TensorFunction:
    if name not in _BY_NAME:
        raise DriftlineError(
            f"There is no tensor function {name!r}.{did_you_mean(name, _BY_NAME)} See driftline schedules list."
        )
    return _BY_NAME[name]


def function_of(trace: Trace) -> TensorFunction:
    """Return the function that a trace schedules: one of this module, or the kernel that the trace holds."""
    if trace.kernel is None:
        return function_named(trace.function)
    kernel = trace.kernel
    return TensorFunction(trace.function, "model kernel", kernel.text, kernel.inputs, (), kernel.outputs, form="script")


def simpler_than(name: str) -> list[TensorFunction]:
    """Return the functions that are simpler than this one, simplest first; empty for a kernel of a model."""
    if name not in _BY_NAME:
        return []
    return list(FUNCTIONS[: NAMES.index(name)])
