"""Matrix products: with batches and vectors, with a bias, as einsum, in attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import FLOATS, Draw, Invalid, Need, TypeRule, Use
from driftline.generate.ops.rules import IEEE, Drawn, broadcast_shapes, one_of, row

if TYPE_CHECKING:
    from driftline.generate.emit_onnx import OnnxWriter

_PRODUCTS = (*FLOATS, "int32", "int64")
_SCALE = one_of(1.0, 1.0, 0.5, 2.0, -1.0, 0.0)


def product_shape(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a product as in numpy: vectors are rows on the left and columns on the right, and their added
    axis is removed."""
    if not left or not right:
        raise Invalid("a product takes axes")
    rows = left if len(left) > 1 else (1, *left)
    columns = right if len(right) > 1 else (*right, 1)
    if rows[-1] != columns[-2]:
        raise Invalid(f"{left} times {right}")
    batch = broadcast_shapes([rows[:-2], columns[:-2]])
    return (*batch, *(rows[-2:-1] if len(left) > 1 else ()), *(columns[-1:] if len(right) > 1 else ()))


def _of_ranks(infer: TypeRule, *ranks: int) -> TypeRule:
    """Restrict a product to operands of these ranks, without broadcasting between batches. A bias may have fewer
    axes."""

    def strict(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
        operands = types[: len(ranks)]
        if tuple(t.rank for t in operands) != ranks or any(t.shape[:-2] != types[0].shape[:-2] for t in operands):
            raise Invalid("the operands are of other ranks")
        return infer(types, attributes)

    return strict


def _product(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    left, right, *bias = types
    if len({t.dtype for t in types}) > 1:
        raise Invalid("the inputs differ in dtype")
    shape = product_shape(left.shape, right.shape)
    if any(broadcast_shapes([shape, b.shape]) != shape for b in bias):
        raise Invalid("the bias does not fit")
    return (left.with_shape(shape),)


def _columns(draw: Draw, first: TensorType) -> Drawn:
    """Choose a matrix for the right side, with the batch of the left side."""
    return (Need(first.with_shape((*first.shape[:-2], first.shape[-1], draw.integer(1, 17)))),), {}


def _right(draw: Draw, first: TensorType) -> Drawn:
    """Choose a vector, a matrix, or a broadcastable batch of matrices."""
    inner = first.shape[-1]
    kind = draw.choice(("vector", "matrix", "batch"))
    if kind == "vector":
        return (Need(first.with_shape((inner,))),), {}
    batch = draw.broadcastable(first.shape[:-2]) if kind == "batch" else ()
    if kind == "batch" and first.rank <= 2:
        batch = (draw.integer(1, 3),)
    return (Need(first.with_shape((*batch, inner, draw.integer(1, 17)))),), {}


def _with_bias(draw: Draw, first: TensorType) -> Drawn:
    (right,), _ = _columns(draw, first)
    bias = draw.broadcastable((*first.shape[:-1], right.type.shape[-1]))
    whole = first.dtype not in FLOATS
    scales = {key: 1 if whole else _SCALE(draw, first) for key in ("alpha", "beta")}
    return (right, Need(first.with_shape(bias))), scales


def _layer(draw: Draw, first: TensorType) -> Drawn:
    """Choose weights as torch stores them (out, in), and sometimes a bias."""
    out = draw.integer(1, 17)
    needs = [Need(first.with_shape((out, first.shape[-1])), prefer="parameter")]
    if draw.chance(0.6):
        needs.append(Need(first.with_shape((out,)), prefer="parameter"))
    return needs, {}


def _layer_rule(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    x, weight, *bias = types
    if weight.rank != 2 or not x.rank or weight.shape[1] != x.shape[-1]:
        raise Invalid("the weights do not fit")
    if len({t.dtype for t in types}) > 1 or any(b.shape != weight.shape[:1] for b in bias):
        raise Invalid("the bias does not fit")
    return (x.with_shape((*x.shape[:-1], weight.shape[0])),)


def _layer_onnx(w: OnnxWriter, u: Use) -> str:
    x, weight, *bias = u.inputs
    if u.types[0].rank == 2:
        return str(w.node("Gemm", x, weight, *bias, transB=1))
    made = w.node("MatMul", x, w.node("Transpose", weight, perm=[1, 0]))
    return str(w.node("Add", made, bias[0]) if bias else made)


def _scaled_sum(w: OnnxWriter, u: Use) -> str:
    left, right, bias = u.inputs
    dtype = u.types[0].dtype
    made = w.node("Mul", w.node("MatMul", left, right), w.scalar(u["alpha"], dtype))
    if u["beta"] == 0:  # with beta=0 the bias is not read
        return str(made)
    return str(w.node("Add", made, w.node("Mul", bias, w.scalar(u["beta"], dtype))))


def _gemm(w: OnnxWriter, u: Use) -> str:
    left, right, bias = u.inputs
    return str(w.node("Gemm", left, right, bias, alpha=float(u["alpha"]), beta=float(u["beta"])))


def _scaled_jnp(use: Use) -> str:
    left, right, bias = use.inputs
    text = f"{use['alpha']} * ({left} @ {right})"
    if use["beta"] == 0:
        return f"jnp.broadcast_to({text}, {use.outputs[0].shape})"
    return f"{text} + {use['beta']} * {bias}"


_EQUATIONS = {
    2: ("ij,jk->ik", "ij,kj->ik", "ij,ij->", "ij,ij->i", "ij,ij->ij", "ij,k->ijk", "ij,j->i", "ij->j", "ij->ji"),
    3: ("bij,bjk->bik", "bij,bkj->bik", "bij,bij->b", "bij,jk->bki", "bij,bij->ij", "bij->bj", "bij,bjk,k->bi"),
    4: ("bhij,bhkj->bhik", "bhij,bhjk->bihk", "bihd,bjhd->bhij", "abcd->dcba", "bhij,hj->bi"),
}


def _equation(draw: Draw, first: TensorType) -> Drawn:
    equation = draw.choice(_EQUATIONS[first.rank])
    terms = equation.split("->")[0].split(",")
    sizes = dict(zip(terms[0], first.shape, strict=True))
    needs = []
    for term in terms[1:]:
        needs.append(Need(first.with_shape(sizes.setdefault(letter, draw.integer(1, 5)) for letter in term)))
    return needs, {"equation": equation}


def _einsum(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    left, _, right = attributes["equation"].partition("->")
    sizes: dict[str, int] = {}
    for term, kind in zip(left.split(","), types, strict=True):
        if len(term) != kind.rank or kind.dtype != types[0].dtype:
            raise Invalid("the equation does not fit")
        for letter, size in zip(term, kind.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise Invalid(f"{letter} has two sizes")
    return (types[0].with_shape(sizes[letter] for letter in right),)


def _vector(draw: Draw, first: TensorType) -> Drawn:
    return (Need(first),), {}


def _any_vector(draw: Draw, first: TensorType) -> Drawn:
    return (Need(first.with_shape((draw.size(),))),), {}


def _outer(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    if types[0].dtype != types[1].dtype:
        raise Invalid("the inputs differ in dtype")
    return (types[0].with_shape((types[0].size, types[1].size)),)


def _matrix_vector(draw: Draw, first: TensorType) -> Drawn:
    return (Need(first.with_shape(first.shape[-1:])),), {}


def _heads(draw: Draw, first: TensorType) -> Drawn:
    """Choose keys and values of one length, and sometimes an additive mask, or causal attention."""
    *batch, rows, width = first.shape
    causal = draw.chance(0.3)
    keys = rows if causal else draw.integer(1, 9)
    needs = [Need(first.with_shape((*batch, keys, width))), Need(first.with_shape((*batch, keys, draw.integer(1, 8))))]
    if not causal and draw.chance(0.4):
        needs.append(Need(first.with_shape((rows, keys))))
    return needs, {"causal": causal, "scale": draw.choice((0.5, 0.25, 1.0))}


def _attention(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    query, key, value, *mask = types
    if len({t.dtype for t in types}) > 1 or {t.shape[:-2] for t in types[:3]} != {query.shape[:-2]}:
        raise Invalid("the heads differ")
    if key.shape[-1] != query.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise Invalid("the keys do not fit")
    if any(m.shape != (query.shape[-2], key.shape[-2]) for m in mask):
        raise Invalid("the mask does not fit")
    if attributes["causal"] and (mask or key.shape[-2] != query.shape[-2]):
        raise Invalid("a causal mask is square and alone")
    return (query.with_shape((*query.shape[:-1], value.shape[-1])),)


def _attention_torch(use: Use) -> str:
    mask = f", attn_mask={use.inputs[3]}" if len(use.inputs) > 3 else ""
    named = ", ".join(use.inputs[:3])
    return f"F.scaled_dot_product_attention({named}{mask}, is_causal={use['causal']}, scale={use['scale']})"


def _attention_onnx(w: OnnxWriter, u: Use) -> str:
    query, key, value, *mask = u.inputs
    rank, dtype = u.types[0].rank, u.types[0].dtype
    turned = w.node("Transpose", key, perm=[*range(rank - 2), rank - 1, rank - 2])
    score = w.node("Mul", w.node("MatMul", query, turned), w.scalar(u["scale"], dtype))
    if mask:
        score = w.node("Add", score, mask[0])
    if u["causal"]:
        ones = w.node("Expand", w.scalar(1, "int64"), w.ints([u.types[0].shape[-2]] * 2))
        past = w.cast(w.node("Trilu", ones, upper=0), "bool")
        score = w.node("Where", past, score, w.scalar(float("-inf"), dtype))
    return str(w.node("MatMul", w.node("Softmax", score, axis=-1), value))


def _attention_jnp(use: Use) -> str:
    query, key, value, *mask = use.inputs
    score = f"({query} @ jnp.swapaxes({key}, -1, -2)) * {use['scale']}"
    if mask:
        score += f" + {mask[0]}"
    if use["causal"]:
        size = use.types[0].shape[-2]
        score = f"jnp.where(jnp.tri({size}, dtype=bool), {score}, -jnp.inf)"
    return f"jax.nn.softmax({score}, axis=-1) @ {value}"


_TWO_MATRICES, _TWO_BATCHES = _of_ranks(_product, 2, 2), _of_ranks(_product, 3, 3)

OPERATORS = [
    row("mm", _TWO_MATRICES, _columns, "torch.mm({0}, {1})", "MatMul", "{0} @ {1}", _PRODUCTS, rank=(2, 2)),
    row("bmm", _TWO_BATCHES, _columns, "torch.bmm({0}, {1})", "MatMul", "{0} @ {1}", _PRODUCTS, rank=(3, 3)),
    row("matmul", _product, _right, "torch.matmul({0}, {1})", "MatMul", "jnp.matmul({0}, {1})", _PRODUCTS, rank=(1, 5)),
    row("mv", _of_ranks(_product, 2, 1), _matrix_vector, "torch.mv({0}, {1})", "MatMul", "{0} @ {1}", _PRODUCTS,
        rank=(2, 2)),
    row("dot", _of_ranks(_product, 1, 1), _vector, "torch.dot({0}, {1})", "MatMul", "jnp.dot({0}, {1})", _PRODUCTS,
        rank=(1, 1)),
    row("outer", _of_ranks(_outer, 1, 1), _any_vector, "torch.outer({0}, {1})",
        lambda w, u: w.node("Mul", w.node("Unsqueeze", u.inputs[0], w.ints([1])), u.inputs[1]),
        "jnp.outer({0}, {1})", _PRODUCTS, rank=(1, 1)),
    row("addmm", _TWO_MATRICES, _with_bias, "torch.addmm({2}, {0}, {1}, beta={beta}, alpha={alpha})", _gemm,
        _scaled_jnp, _PRODUCTS, onnx_dtypes=FLOATS, rank=(2, 2)),  # Gemm scales by a float: integers wrap differently
    row("baddbmm", _TWO_BATCHES, _with_bias, "torch.baddbmm({2}, {0}, {1}, beta={beta}, alpha={alpha})", _scaled_sum,
        _scaled_jnp, _PRODUCTS, rank=(3, 3)),
    row("linear", _layer_rule, _layer, lambda u: f"F.linear({', '.join(u.inputs)})", _layer_onnx,
        lambda u: f"{u.inputs[0]} @ {u.inputs[1]}.T" + (f" + {u.inputs[2]}" if len(u.inputs) > 2 else ""),
        rank=(1, 4)),
    row("einsum", _einsum, _equation, lambda u: f"torch.einsum({u['equation']!r}, {', '.join(u.inputs)})",
        lambda w, u: w.node("Einsum", *u.inputs, equation=u["equation"]),
        lambda u: f"jnp.einsum({u['equation']!r}, {', '.join(u.inputs)})", onnx_dtypes=IEEE, rank=(2, 4)),
    row("attention", _attention, _heads, _attention_torch, _attention_onnx, _attention_jnp, rank=(3, 4),
        fits=lambda first: first.size > 0),
]  # fmt: skip
