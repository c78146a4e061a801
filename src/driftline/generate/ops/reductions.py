"""Reductions over some axes. An empty list means all axes, in every form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import ALL, FLOATS, INTEGERS, Draw, Invalid, Use
from driftline.generate.ops.rules import Drawn, normal_axis, not_empty, row

if TYPE_CHECKING:
    from driftline.generate.emit_onnx import OnnxWriter

_SUMS = (*FLOATS, *INTEGERS)
_ONNX_SUMS = (*FLOATS, "int32", "int64")
_ONNX_ORDERED = (*_ONNX_SUMS, "int8", "uint8")


def _axes(draw: Draw, first: TensorType) -> Drawn:
    """Choose all axes, listed or not, or some of them, counted from either end."""
    axes = [] if draw.chance(0.2) else draw.axes(first.rank)
    if draw.chance(0.5):
        axes = [axis - first.rank if draw.chance(0.5) else axis for axis in axes]
    return (), {"axes": axes, "keepdim": draw.chance(0.4)}


def _corrected(draw: Draw, first: TensorType) -> Drawn:
    """Choose axes and a correction that leaves degrees of freedom, since the result would be NaN otherwise."""
    none, attributes = _axes(draw, first)
    count = _count(first, attributes["axes"])
    return none, {**attributes, "correction": draw.choice((0, 1)) if count > 1 else 0}


def reduced_axes(axes: Sequence[int], rank: int) -> list[int]:
    """Return the reduced axes in order, counted from the front."""
    return sorted(normal_axis(axis, rank) for axis in axes) if axes else list(range(rank))


def _count(kind: TensorType, axes: Sequence[int]) -> int:
    count = 1
    for axis in reduced_axes(axes, kind.rank):
        count *= kind.shape[axis]
    return count


def reduced(dtype: str | None = None, least: int = 0) -> Callable[..., Sequence[TensorType]]:
    """Return the type rule of a reduction that needs at least `least` numbers."""

    def infer(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,) = types
        axes = reduced_axes(attributes["axes"], x.rank)
        if axes and not x.rank:
            raise Invalid("a number has no axes")
        if len(set(axes)) < len(axes):
            raise Invalid("an axis is named twice")
        if least and (not x.size or _count(x, axes) < least + attributes.get("correction", 0)):
            raise Invalid("too few numbers")
        keep = attributes["keepdim"]
        shape = [1 if at in axes else size for at, size in enumerate(x.shape) if keep or at not in axes]
        return (TensorType(dtype or x.dtype, tuple(shape)),)

    return infer


def _jnp_axes(use: Use) -> str:
    axes = use["axes"]
    return f"axis={tuple(axes) if axes else None}, keepdims={use['keepdim']}"


def _dims(use: Use) -> str:
    """Write the axes explicitly: in torch an empty list means all axes in some functions and none in others."""
    axes = list(use["axes"]) or list(range(max(use.types[0].rank, 1)))
    return f"dim={axes}, keepdim={use['keepdim']}"


def _torch(function: str, more: str = "") -> Callable[[Use], str]:
    return lambda u: f"{function}({u.inputs[0]}, {_dims(u)}{more.format(**u.attributes)})"


def _torch_kept(use: Use) -> str:
    """Write a sum with an explicit dtype, since torch returns int64 for sums of smaller integers by default."""
    dtype = use.types[0].dtype
    more = "" if dtype in FLOATS or dtype == "int64" else f", dtype=torch.{dtype}"
    return f"torch.sum({use.inputs[0]}, {_dims(use)}{more})"


def _jnp(function: str, more: str = "") -> Callable[[Use], str]:
    return lambda u: f"{function}({u.inputs[0]}, {_jnp_axes(u)}{more.format(**u.attributes)})"


def _jnp_kept(function: str) -> Callable[[Use], str]:
    return lambda u: f"{function}({u.inputs[0]}, {_jnp_axes(u)}, dtype={u.inputs[0]}.dtype)"


def reduce_node(w: OnnxWriter, kind: str, x: str, use: Use, keepdim: bool | None = None) -> str:
    """Add a reduction node over the axes of the application."""
    keep = use["keepdim"] if keepdim is None else keepdim
    inputs = [w.ints(use["axes"])] if use["axes"] else []
    return str(w.node(kind, x, *inputs, keepdims=int(keep)))


def _onnx(kind: str) -> Any:
    return lambda w, u: reduce_node(w, kind, u.inputs[0], u)


def _counted(kind: str, final: str) -> Any:
    """Return a form that goes through int64, since ONNX does not reduce bool."""

    def emit(w: OnnxWriter, u: Use) -> str:
        truth = u.inputs[0] if u.types[0].dtype == "bool" else w.cast(u.inputs[0], "bool")
        made = reduce_node(w, kind, w.cast(truth, "int64"), u)
        return made if final == "int64" else w.cast(made, final)

    return emit


def _variance(w: OnnxWriter, u: Use) -> str:
    x, dtype = u.inputs[0], u.types[0].dtype
    off = w.node("Sub", x, reduce_node(w, "ReduceMean", x, u, keepdim=True))
    total = reduce_node(w, "ReduceSum", str(w.node("Mul", off, off)), u)
    return str(w.node("Div", total, w.scalar(_count(u.types[0], u["axes"]) - u["correction"], dtype)))


_reduce = partial(row, drawn=_axes, rank=(0, 5))
_full = partial(_reduce, fits=not_empty)
_NORM = "torch.linalg.vector_norm"

OPERATORS = [
    _reduce("sum", reduced(), torch=_torch_kept, onnx=_onnx("ReduceSum"), jnp=_jnp_kept("jnp.sum"), dtypes=_SUMS,
            onnx_dtypes=_ONNX_SUMS),
    _full("mean", reduced(least=1), torch=_torch("torch.mean"), onnx=_onnx("ReduceMean"), jnp=_jnp("jnp.mean")),
    # prod takes one axis in torch
    row("prod", reduced(), lambda draw, first: ((), {"axes": [draw.axis(first.rank)], "keepdim": draw.chance(0.4)}),
        lambda u: f"torch.prod({u.inputs[0]}, {u['axes'][0]}, keepdim={u['keepdim']}, dtype={u.inputs[0]}.dtype)",
        _onnx("ReduceProd"), _jnp_kept("jnp.prod"), _SUMS, onnx_dtypes=_ONNX_SUMS, rank=(1, 5)),
    _full("amax", reduced(least=1), torch=_torch("torch.amax"), onnx=_onnx("ReduceMax"), jnp=_jnp("jnp.max"),
          dtypes=_SUMS, onnx_dtypes=_ONNX_ORDERED),
    _full("amin", reduced(least=1), torch=_torch("torch.amin"), onnx=_onnx("ReduceMin"), jnp=_jnp("jnp.min"),
          dtypes=_SUMS, onnx_dtypes=_ONNX_ORDERED),
    row("var", reduced(least=1), _corrected, _torch("torch.var", ", correction={correction}"), _variance,
        _jnp("jnp.var", ", ddof={correction}"), fits=not_empty),
    row("std", reduced(least=1), _corrected, _torch("torch.std", ", correction={correction}"),
        lambda w, u: w.node("Sqrt", _variance(w, u)), _jnp("jnp.std", ", ddof={correction}"), fits=not_empty),
    _full("logsumexp", reduced(least=1), torch=_torch("torch.logsumexp"), onnx=_onnx("ReduceLogSumExp"),
          jnp=_jnp("jax.scipy.special.logsumexp"), rank=(1, 5), edges=(88.0, -88.0)),  # evaluator: no scalars
    _full("norm_l1", reduced(least=1), torch=_torch(_NORM, ", ord=1"), onnx=_onnx("ReduceL1"),
          jnp=lambda u: f"jnp.sum(jnp.abs({u.inputs[0]}), {_jnp_axes(u)})"),
    _full("norm_l2", reduced(least=1), torch=_torch(_NORM, ", ord=2"), onnx=_onnx("ReduceL2"),
          jnp=lambda u: f"jnp.sqrt(jnp.sum(jnp.square({u.inputs[0]}), {_jnp_axes(u)}))"),
    _full("norm_inf", reduced(least=1), torch=_torch(_NORM, ", ord=float('inf')"),
          onnx=lambda w, u: reduce_node(w, "ReduceMax", w.node("Abs", u.inputs[0]), u),
          jnp=lambda u: f"jnp.max(jnp.abs({u.inputs[0]}), {_jnp_axes(u)})"),
    _full("sum_square", reduced(least=1), torch=lambda u: f"torch.sum(torch.square({u.inputs[0]}), {_dims(u)})",
          onnx=_onnx("ReduceSumSquare"), jnp=lambda u: f"jnp.sum(jnp.square({u.inputs[0]}), {_jnp_axes(u)})"),
    _full("log_sum", reduced(least=1), torch=lambda u: f"torch.log({_torch('torch.sum')(u)})",
          onnx=_onnx("ReduceLogSum"), jnp=lambda u: f"jnp.log({_jnp('jnp.sum')(u)})", first_values="positive"),
    # of uint8 torch gives uint8
    _reduce("any", reduced("bool"), torch=_torch("torch.any"), onnx=_counted("ReduceMax", "bool"), jnp=_jnp("jnp.any"),
            dtypes=tuple(d for d in ALL if d != "uint8"), differentiable=False, fits=not_empty),
    _reduce("all", reduced("bool"), torch=_torch("torch.all"), onnx=_counted("ReduceMin", "bool"), jnp=_jnp("jnp.all"),
            dtypes=tuple(d for d in ALL if d != "uint8"), differentiable=False, fits=not_empty),
    _reduce("count_nonzero", reduced("int64"),
            torch=lambda u: f"torch.sum({u.inputs[0]} != 0, {_dims(u)})",
            onnx=_counted("ReduceSum", "int64"),
            jnp=lambda u: f"jnp.sum({u.inputs[0]} != 0, {_jnp_axes(u)})", dtypes=ALL, differentiable=False),
]  # fmt: skip
