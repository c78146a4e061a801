"""Operators that change nothing: dropout outside training, copies, and arithmetic that a simplifier removes.

Rewriting starts with them: a compiler that replaces x * 1 by x has to know when that is valid.
"""

from __future__ import annotations

from typing import Any

from driftline.generate.operator import ALL, COMPLEX, FLOATS, HALVES, NUMBERS, Form, Operator, Use
from driftline.generate.ops.onnx_words import onnx_reshape
from driftline.generate.ops.rules import MOVED, MOVED_REAL, choosing, nothing, one_of, same, swapped

_chance = choosing(chance=one_of(0.1, 0.5))


def _onnx_dropout(w: Any, u: Use) -> Any:
    return w.node("Dropout", u.inputs[0], w.scalar(u["chance"], "float32"))


def _onnx_with(kind: str, number: int) -> Any:
    return lambda w, u: w.node(kind, u.inputs[0], w.scalar(number, u.types[0].dtype))


def _onnx_twice_transposed(w: Any, u: Use) -> Any:
    axes = swapped(u.types[0].rank, -1, -2)
    return w.node("Transpose", w.node("Transpose", u.inputs[0], perm=axes), perm=axes)


def _onnx_reshaped_back(w: Any, u: Use) -> Any:
    flat = onnx_reshape(w, u.inputs[0], [u.types[0].size])
    return onnx_reshape(w, flat, u.types[0].shape)


def _same_dtype(module: str) -> Any:
    def emit(u: Use) -> str:
        dtype = u.types[0].dtype
        if module == "torch":
            return f"{u.inputs[0]}.to(torch.{dtype})"
        return f"{u.inputs[0]}.astype(jnp.{'bool_' if dtype == 'bool' else dtype})"

    return emit


OPERATORS = [
    Operator(
        "dropout_eval", same, _chance,
        Form("F.dropout({0}, {chance}, training=False)", FLOATS), Form(_onnx_dropout, FLOATS), Form("{0}", FLOATS),
        view=True,
    ),
    Operator(
        "alpha_dropout_eval", same, _chance, Form("F.alpha_dropout({0}, {chance}, training=False)", FLOATS), view=True,
    ),
    Operator(
        "feature_dropout_eval", same, _chance, Form("F.dropout2d({0}, {chance}, training=False)", FLOATS),
        rank=(4, 4), view=True,
    ),
    Operator(
        "detach", same, nothing,
        Form("{0}.detach()", MOVED), None, Form("lax.stop_gradient({0})", MOVED), view=True, differentiable=False,
    ),
    Operator(
        "identity", same, nothing,
        Form("torch.ops.aten.alias({0})", MOVED), Form("Identity", MOVED_REAL), Form("{0}", MOVED), view=True,
    ),
    Operator(
        "clone", same, nothing, Form("{0}.clone()", MOVED), Form("Identity", MOVED_REAL), Form("jnp.copy({0})", MOVED),
    ),
    Operator(
        "contiguous", same, nothing,
        Form("{0}.contiguous()", MOVED), Form("Identity", MOVED_REAL), Form("{0}", MOVED), view=True,
    ),
    Operator(
        "mul_one", same, nothing,
        Form("{0} * 1", (*NUMBERS, *COMPLEX)), Form(_onnx_with("Mul", 1), NUMBERS), Form("{0} * 1", NUMBERS),
    ),
    Operator(
        "add_zero", same, nothing,
        Form("{0} + 0", (*NUMBERS, *COMPLEX)), Form(_onnx_with("Add", 0), NUMBERS), Form("{0} + 0", NUMBERS),
        edges=(-0.0,),
    ),
    Operator(
        "sub_zero", same, nothing,
        Form("{0} - 0", NUMBERS), Form(_onnx_with("Sub", 0), NUMBERS), Form("{0} - 0", NUMBERS), edges=(-0.0,),
    ),
    Operator(
        "div_one", same, nothing, Form("{0} / 1", FLOATS), Form(_onnx_with("Div", 1), FLOATS), Form("{0} / 1", FLOATS),
    ),
    Operator(
        "negated_twice", same, nothing,
        Form("-(-{0})", (*FLOATS, "int64", "int32")),
        Form(lambda w, u: w.node("Neg", w.node("Neg", u.inputs[0])), (*FLOATS, "int64", "int32")),
        Form("-(-{0})", (*FLOATS, "int64", "int32")),
    ),
    Operator(
        "transposed_twice", same, nothing,
        Form("{0}.mT.mT", MOVED), Form(_onnx_twice_transposed, MOVED_REAL), Form("{0}.mT.mT", MOVED),
        rank=(2, 5), view=True,
    ),
    Operator(
        "reshaped_back", same, nothing,
        Form(lambda u: f"{u.inputs[0]}.reshape(-1).reshape({u.types[0].shape})", MOVED),
        Form(_onnx_reshaped_back, MOVED_REAL),
        Form(lambda u: f"{u.inputs[0]}.reshape(-1).reshape({u.types[0].shape})", MOVED), view=True,
    ),
    Operator(
        "cast_to_itself", same, nothing,
        Form(_same_dtype("torch"), MOVED), Form(lambda w, u: w.cast(u.inputs[0], u.types[0].dtype), MOVED_REAL),
        Form(_same_dtype("jnp"), MOVED), view=True,
    ),
    Operator(
        "cast_wide_and_back", same, nothing,
        Form(lambda u: f"{u.inputs[0]}.to(torch.float32).to(torch.{u.types[0].dtype})", HALVES),
        Form(lambda w, u: w.cast(w.cast(u.inputs[0], "float32"), u.types[0].dtype), HALVES),
        Form(lambda u: f"{u.inputs[0]}.astype(jnp.float32).astype(jnp.{u.types[0].dtype})", HALVES),
    ),
    Operator(
        "where_true", same, nothing,
        Form("torch.where(torch.ones_like({0}, dtype=torch.bool), {0}, 0)", NUMBERS),
        Form(lambda w, u: w.node("Where", w.scalar(True, "bool"), u.inputs[0], w.scalar(0, u.types[0].dtype)), ALL),
        Form("jnp.where(True, {0}, 0).astype({0}.dtype)", ALL),
    ),
]  # fmt: skip
