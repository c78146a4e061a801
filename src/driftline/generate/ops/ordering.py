"""Sorting, selection and positions of extremes.

Only defined results are returned: sorts are stable, ONNX's TopK breaks ties by position (its torch form is a stable
sort), and torch's own topk, which leaves ties undefined, returns values without positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import FLOATS, INTEGERS, NUMBERS, WIDE_UNSIGNED, Draw, Invalid, Use
from driftline.generate.ops.rules import IEEE, Drawn, any_axis, choosing, normal_axis, not_empty, row, same

if TYPE_CHECKING:
    from driftline.generate.emit_onnx import OnnxWriter

_TOPK = (*IEEE, *INTEGERS)


def _sorted(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    """Return the types of the sorted values and of their original positions."""
    (values,) = same(types, attributes)
    return values, values.with_dtype("int64")


def _flag(draw: Draw, first: TensorType) -> bool:
    return draw.chance(0.5)


def _how_many(draw: Draw, first: TensorType) -> Drawn:
    axis = draw.axis(first.rank)
    return (), {"k": draw.integer(1, first.shape[axis]), "axis": axis, "largest": draw.chance(0.5)}


def _top(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    (x,) = types
    axis = normal_axis(attributes["axis"], x.rank)
    if not 1 <= attributes["k"] <= x.shape[axis]:
        raise Invalid("k is more than there are")
    return (x.with_shape((*x.shape[:axis], attributes["k"], *x.shape[axis + 1 :])),)


def _top_both(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    (made,) = _top(types, attributes)
    return made, made.with_dtype("int64")


def _topk_node(w: OnnxWriter, u: Use) -> list[str]:
    made: list[str] = w.node(
        "TopK", u.inputs[0], w.ints([u["k"]]), outputs=2, axis=u["axis"], largest=int(u["largest"]), sorted=1
    )
    return made


def _sorted_node(w: OnnxWriter, u: Use) -> list[str]:
    size = w.ints([u.types[0].shape[u["axis"]]])
    made: list[str] = w.node("TopK", u.inputs[0], size, outputs=2, axis=u["axis"], largest=int(u["descending"]))
    return made


def _first_k(use: Use) -> str:
    """Write a stable sort that is cut after `k` elements, as one expression with two results."""
    cut = f"t.narrow({use['axis']}, 0, {use['k']})"
    return f"({cut} for t in torch.sort({use.inputs[0]}, dim={use['axis']}, descending={use['largest']}, stable=True))"


def _reduce_axis(dtype: str = "") -> Any:
    def infer(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,) = types
        axis = normal_axis(attributes["axis"], x.rank)
        kept = (1,) if attributes["keepdim"] else ()
        return (TensorType(dtype or x.dtype, (*x.shape[:axis], *kept, *x.shape[axis + 1 :])),)

    return infer


def _kth(draw: Draw, first: TensorType) -> Drawn:
    axis = draw.axis(first.rank)
    return (), {"k": draw.integer(1, first.shape[axis]), "axis": axis, "keepdim": draw.chance(0.5)}


def _kth_value(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    _top(types, attributes)
    made: Sequence[TensorType] = _reduce_axis()(types, attributes)
    return made


def _arg(kind: str, last: int = 0) -> Any:
    return lambda w, u: w.node(kind, u.inputs[0], axis=u["axis"], keepdims=int(u["keepdim"]), select_last_index=last)


def _last_arg(module: str, function: str) -> Any:
    """Return a form that finds the last of equal elements, by counting from the other end."""

    def emit(use: Use) -> str:
        x, axis = use.inputs[0], use["axis"]
        keep = "keepdim" if module == "torch" else "keepdims"
        found = f"{module}.{function}({module}.flip({x}, ({axis},)), {axis}, {keep}={use['keepdim']})"
        return f"{use.types[0].shape[axis] - 1} - {found}"

    return emit


def _bounds(draw: Draw, first: TensorType) -> Drawn:
    steps = sorted(draw.rng.sample(range(-8, 9), draw.integer(1, 6)))
    return (), {"bounds": [step / 4 for step in steps], "right": draw.chance(0.5)}


_ARG = choosing(axis=any_axis, keepdim=_flag)
_SORT = choosing(axis=any_axis, descending=_flag)


def _arg_rows(name: str, kind: str) -> list[Any]:
    more: dict[str, Any] = {"rank": (1, 5), "fits": not_empty, "differentiable": False}
    return [
        row(name, _reduce_axis("int64"), _ARG, f"torch.{name}({{0}}, {{axis}}, keepdim={{keepdim}})", _arg(kind),
            f"jnp.{name}({{0}}, {{axis}}, keepdims={{keepdim}})", NUMBERS, **more),
        row(f"last_{name}", _reduce_axis("int64"), _ARG, _last_arg("torch", name), _arg(kind, last=1),
            _last_arg("jnp", name), NUMBERS, **more),
    ]  # fmt: skip


OPERATORS = [
    row("sort", _sorted, _SORT,
        "torch.sort({0}, dim={axis}, descending={descending}, stable=True)", _sorted_node,
        "jnp.sort({0}, axis={axis}, descending={descending}), "
        "jnp.argsort({0}, axis={axis}, descending={descending}, stable=True).astype(jnp.int64)",
        NUMBERS, onnx_dtypes=_TOPK, rank=(1, 5), fits=not_empty),
    row("argsort", lambda types, attributes: _sorted(types, attributes)[1:], _SORT,
        "torch.argsort({0}, dim={axis}, descending={descending}, stable=True)", lambda w, u: _sorted_node(w, u)[1],
        "jnp.argsort({0}, axis={axis}, descending={descending}, stable=True).astype(jnp.int64)",
        NUMBERS, onnx_dtypes=_TOPK, rank=(1, 5), fits=not_empty, differentiable=False),
    row("msort", same, lambda draw, first: ((), {}), "torch.msort({0})", None, "jnp.sort({0}, axis=0)", NUMBERS,
        rank=(1, 5), fits=not_empty),
    row("topk", _top, _how_many, "torch.topk({0}, {k}, {axis}, largest={largest}).values",
        lambda w, u: _topk_node(w, u)[0], None, NUMBERS, onnx_dtypes=_TOPK, rank=(1, 5), fits=not_empty),
    row("topk_by_position", _top_both, _how_many, _first_k, _topk_node, None, NUMBERS,
        onnx_dtypes=(*_TOPK, *WIDE_UNSIGNED), rank=(1, 5), fits=not_empty),
    *_arg_rows("argmax", "ArgMax"),
    *_arg_rows("argmin", "ArgMin"),
    row("median", _reduce_axis(), _ARG, "torch.median({0}, {axis}, keepdim={keepdim}).values", dtypes=NUMBERS,
        rank=(1, 5), fits=not_empty),
    row("kthvalue", _kth_value, _kth, "torch.kthvalue({0}, {k}, {axis}, keepdim={keepdim}).values", dtypes=NUMBERS,
        rank=(1, 5), fits=not_empty),
    row("bucketize", lambda types, attributes: (types[0].with_dtype("int64"),), _bounds,
        "torch.bucketize({0}, torch.tensor({bounds}, dtype={0}.dtype, device={0}.device), right={right})", None,
        lambda u: f"jnp.searchsorted(jnp.array({u['bounds']}, dtype={u.inputs[0]}.dtype), {u.inputs[0]}, "
                  f"side={'right' if u['right'] else 'left'!r}).astype(jnp.int64)",
        FLOATS, differentiable=False, edges=(-2.0, 0.0, 0.25, 1.0)),
]  # fmt: skip
