"""Normalisation over the last axes, channels, groups or neighbouring channels.

Epsilons are powers of two, so that the float32 attribute of ONNX is the same number as in torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import Draw, Invalid, Need, Use
from driftline.generate.ops.rules import IEEE, Drawn, any_axis, both, choosing, not_empty, nothing, one_of, row, same

if TYPE_CHECKING:
    from driftline.generate.emit_onnx import OnnxWriter

_EPS = one_of(2.0**-17, 2.0**-10)
_STASHED = ("float32", "float16", "bfloat16")  # LayerNormalization computes its statistics in float32, doubles too


def _weights(first: TensorType, shape: tuple[int, ...], count: int) -> tuple[Need, ...]:
    return tuple(Need(TensorType(first.dtype, shape), prefer="parameter") for _ in range(count))


def _last_axes(most: int) -> Any:
    """Return a rule that chooses the last axes to normalise, with no weights or `most` weights of their shape."""

    def drawn(draw: Draw, first: TensorType) -> Drawn:
        axes = draw.integer(1, min(first.rank, 3))
        return _weights(first, first.shape[-axes:], draw.choice((0, most))), {"axes": axes, "eps": _EPS(draw, first)}

    return drawn


def _last_rule(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    x, *weights = types
    axes = attributes["axes"]
    if not 1 <= axes <= x.rank or any(w != x.with_shape(x.shape[-axes:]) for w in weights):
        raise Invalid("the weights are not of the shape that is normalised")
    return (x,)


def _channels(least: int, positive: int | None = None) -> Any:
    """Return a rule that chooses one weight for each channel, `least` of them or two more; the one at index `positive`
    is a variance and above zero. The first `least` are statistics without a gradient, so they do not become parameters
    if a gradient is computed."""

    def drawn(draw: Draw, first: TensorType) -> Drawn:
        kind = TensorType(first.dtype, (first.shape[1],))
        count = draw.choice((least, least + 2))
        needs = [
            Need(
                kind, values="positive" if at == positive else "any", prefer="parameter" if at >= least else "constant"
            )
            for at in range(count)
        ]
        return needs, {"eps": _EPS(draw, first)}

    return drawn


def _channel_rule(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    x, *weights = types
    if x.rank < 2 or any(w != TensorType(x.dtype, (x.shape[1],)) for w in weights):
        raise Invalid("one weight for each channel")
    if "groups" in attributes and x.shape[1] % attributes["groups"]:
        raise Invalid("the groups do not divide the channels")
    return (x,)


def _group_draw(draw: Draw, first: TensorType) -> Drawn:
    channels = first.shape[1]
    groups = draw.choice([count for count in range(1, channels + 1) if channels % count == 0])
    return _weights(first, (channels,), draw.choice((0, 2))), {"groups": groups, "eps": _EPS(draw, first)}


def _layer_torch(use: Use) -> str:
    x, *weights = use.inputs
    named = "".join(f", {name}" for name in weights) or ", None, None"
    return f"F.layer_norm({x}, {use.types[0].shape[-use['axes'] :]}{named}, eps={use['eps']})"


def _layer_onnx(w: OnnxWriter, u: Use) -> str:
    x, *weights = u.inputs
    if not weights:
        weights = [_full(w, u.types[0].dtype, u.types[0].shape[-u["axes"] :], 1)]
    return str(w.node("LayerNormalization", x, *weights, axis=-u["axes"], epsilon=u["eps"]))


def _full(w: OnnxWriter, dtype: str, shape: tuple[int, ...], value: float) -> str:
    return str(w.node("Expand", w.scalar(value, dtype), w.ints(shape)))


def _moments(x: str, axes: object, eps: float) -> str:
    text = f"({x} - jnp.mean({x}, axis={axes}, keepdims=True))"
    return f"{text} * lax.rsqrt(jnp.var({x}, axis={axes}, keepdims=True) + {eps})"


def _layer_jnp(use: Use) -> str:
    x, *weights = use.inputs
    text = _moments(x, tuple(range(-use["axes"], 0)), use["eps"])
    return text + (f" * {weights[0]} + {weights[1]}" if weights else "")


def _rms_torch(use: Use) -> str:
    x, *weights = use.inputs
    weight = weights[0] if weights else None
    return f"F.rms_norm({x}, {use.types[0].shape[-use['axes'] :]}, {weight}, eps={use['eps']})"


def _rms_onnx(w: OnnxWriter, u: Use) -> str:
    x, *weights = u.inputs
    mean = w.node("ReduceMean", w.node("Mul", x, x), w.ints(range(-u["axes"], 0)), keepdims=1)
    root = w.node("Sqrt", w.node("Add", mean, w.scalar(u["eps"], u.types[0].dtype)))
    made = w.node("Div", x, root)
    return str(w.node("Mul", made, weights[0]) if weights else made)


def _rms_jnp(use: Use) -> str:
    x, *weights = use.inputs
    axes = tuple(range(-use["axes"], 0))
    text = f"{x} * lax.rsqrt(jnp.mean(jnp.square({x}), axis={axes}, keepdims=True) + {use['eps']})"
    return text + (f" * {weights[0]}" if weights else "")


def _along(use: Use, name: str) -> str:
    """Reshape a weight of the channels so that it broadcasts in jnp."""
    return f"{name}.reshape({(-1, *[1] * (use.types[0].rank - 2))})"


def _batch_torch(use: Use) -> str:
    x, mean, var, *weights = use.inputs
    named = ", ".join(weights) or "None, None"
    return f"F.batch_norm({x}, {mean}, {var}, {named}, training=False, eps={use['eps']})"


def _batch_onnx(w: OnnxWriter, u: Use) -> str:
    x, mean, var, *weights = u.inputs
    if not weights:
        weights = [_full(w, u.types[0].dtype, u.types[1].shape, value) for value in (1, 0)]
    return str(w.node("BatchNormalization", x, *weights, mean, var, epsilon=u["eps"]))


def _batch_jnp(use: Use) -> str:
    x, mean, var, *weights = (use.inputs[0], *(_along(use, name) for name in use.inputs[1:]))
    text = f"({x} - {mean}) * lax.rsqrt({var} + {use['eps']})"
    return text + (f" * {weights[0]} + {weights[1]}" if weights else "")


def _instance_torch(use: Use) -> str:
    x, *weights = use.inputs
    named = f"weight={weights[0]}, bias={weights[1]}, " if weights else ""
    return f"F.instance_norm({x}, {named}eps={use['eps']})"


def _instance_onnx(w: OnnxWriter, u: Use) -> str:
    x, *weights = u.inputs
    if not weights:
        weights = [_full(w, u.types[0].dtype, u.types[0].shape[1:2], value) for value in (1, 0)]
    return str(w.node("InstanceNormalization", x, *weights, epsilon=u["eps"]))


def _instance_jnp(use: Use) -> str:
    x, *weights = (use.inputs[0], *(_along(use, name) for name in use.inputs[1:]))
    text = _moments(x, tuple(range(2, use.types[0].rank)), use["eps"])
    return text + (f" * {weights[0]} + {weights[1]}" if weights else "")


def _group_torch(use: Use) -> str:
    x, *weights = use.inputs
    named = "".join(f", {name}" for name in weights) or ", None, None"
    return f"F.group_norm({x}, {use['groups']}{named}, eps={use['eps']})"


def _group_onnx(w: OnnxWriter, u: Use) -> str:
    """Write group norm as an instance norm with the groups as channels, since the checker considers GroupNormalization
    deprecated in opset 18."""
    x, *weights = u.inputs
    shape, groups = u.types[0].shape, u["groups"]
    plain = [_full(w, u.types[0].dtype, (groups,), value) for value in (1, 0)]
    split = w.node("Reshape", x, w.ints((shape[0], groups, -1)))
    made = w.node("InstanceNormalization", split, *plain, epsilon=u["eps"])
    made = w.node("Reshape", made, w.ints(shape))
    if weights:
        along = w.ints((-1, *[1] * (u.types[0].rank - 2)))
        scale, bias = (w.node("Reshape", name, along) for name in weights)
        made = w.node("Add", w.node("Mul", made, scale), bias)
    return str(made)


def _group_jnp(use: Use) -> str:
    x, shape = use.inputs[0], use.types[0].shape
    weights = [_along(use, name) for name in use.inputs[1:]]
    split = f"{x}.reshape({(shape[0], use['groups'], -1)})"
    text = f"({_moments(split, -1, use['eps'])}).reshape({shape})"
    return text + (f" * {weights[0]} + {weights[1]}" if weights else "")


def _response_jnp(use: Use) -> str:
    x, size = use.inputs[0], use["size"]
    pads = f"[(0, 0), ({size // 2}, {size // 2})] + [(0, 0)] * {use.types[0].rank - 2}"
    channels = use.types[0].shape[1]
    padded = f"jnp.pad(jnp.square({x}), {pads})"
    total = " + ".join(f"{padded}[:, {at}:{at + channels}]" for at in range(size))
    return f"{x} / ({use['k']} + {use['alpha'] / size} * ({total})) ** {use['beta']}"


def _normalize_onnx(w: OnnxWriter, u: Use) -> str:
    x, kind = u.inputs[0], {1: "ReduceL1", 2: "ReduceL2"}[u["p"]]
    length = w.node(kind, x, w.ints([u["axis"]]), keepdims=1)
    return str(w.node("Div", x, w.node("Max", length, w.scalar(u["eps"], u.types[0].dtype))))


def _length_jnp(use: Use) -> str:
    x, axis = use.inputs[0], use["axis"]
    if use["p"] == 1:
        return f"jnp.sum(jnp.abs({x}), axis={axis}, keepdims=True)"
    return f"jnp.sqrt(jnp.sum(jnp.square({x}), axis={axis}, keepdims=True))"


def _many(first: TensorType) -> bool:
    """True if each channel has more than one number: torch refuses to normalise a single one."""
    return first.size > 0 and first.size > first.shape[0] * first.shape[1]


OPERATORS = [
    row("layer_norm", _last_rule, _last_axes(2), _layer_torch, _layer_onnx, _layer_jnp, onnx_dtypes=_STASHED,
        rank=(1, 5), fits=not_empty),
    row("rms_norm", _last_rule, _last_axes(1), _rms_torch, _rms_onnx, _rms_jnp, rank=(1, 5), fits=not_empty),
    row("batch_norm", _channel_rule, _channels(2, positive=1), _batch_torch, _batch_onnx, _batch_jnp, rank=(2, 5),
        fits=not_empty, statistics=True),
    row("instance_norm", _channel_rule, _channels(0), _instance_torch, _instance_onnx, _instance_jnp,
        onnx_dtypes=IEEE, rank=(3, 5), fits=_many),
    row("group_norm", _channel_rule, _group_draw, _group_torch, _group_onnx, _group_jnp, onnx_dtypes=IEEE,
        rank=(2, 5), fits=_many),
    # No ONNX form: the reference evaluator sums over as many channels as there are examples
    row("local_response_norm", same,
        both(nothing, size=one_of(1, 3, 5), alpha=one_of(0.0625, 1.0), beta=one_of(0.75, 0.5, 1.0), k=one_of(1.0, 2.0)),
        "F.local_response_norm({0}, {size}, alpha={alpha}, beta={beta}, k={k})", None, _response_jnp,
        ("float32", "float64"), rank=(4, 4), fits=not_empty),
    row("normalize", same, choosing(p=one_of(2, 2, 1), axis=any_axis, eps=one_of(2.0**-12, 2.0**-20)),
        "F.normalize({0}, p={p}, dim={axis}, eps={eps})", _normalize_onnx,
        lambda u: f"{u.inputs[0]} / jnp.maximum({_length_jnp(u)}, {u['eps']})", rank=(1, 5), fits=not_empty),
    # p=2 alone: with 1 the reference evaluator adds the numbers instead of their magnitudes
    row("lp_normalization", same, choosing(p=one_of(2), axis=any_axis),
        "{0} / torch.linalg.vector_norm({0}, ord={p}, dim={axis}, keepdim=True)",
        lambda w, u: w.node("LpNormalization", u.inputs[0], axis=u["axis"], p=u["p"]),
        lambda u: f"{u.inputs[0]} / {_length_jnp(u)}", onnx_dtypes=IEEE, rank=(1, 5), fits=not_empty),
]  # fmt: skip
