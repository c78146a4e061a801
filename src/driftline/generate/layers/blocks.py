"""Building blocks of models, for every language: attention, norms, chains of layers, losses, manual quantisation.

Each is written in plain operators, which is what fusions match, with the variations that authors use.
"""

from __future__ import annotations

from driftline.generate.layers.graph_sketch import GraphSketch, block

_EPS = 2.0**-10
_ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "leaky_relu", "hardswish", "elu")


def _activated(s: GraphSketch, x: int) -> int:
    return s.apply(s.either(*_ACTIVATIONS), x)


def _scores(s: GraphSketch, queries: int, keys: int) -> int:
    """Apply the scaled product of queries and keys, scaled before or after."""
    scale = s.draw.choice((0.5, 0.25, 0.125))
    if s.draw.chance(0.3):
        queries = s.apply("mul_scalar", queries, scalar=scale)
        return s.apply("matmul", queries, s.apply("transpose", keys, one=-1, other=-2))
    made = s.apply("matmul", queries, s.apply("transpose", keys, one=-1, other=-2))
    if s.draw.chance(0.5):
        return s.apply("mul_scalar", made, scalar=scale)
    return s.apply("div_scalar", made, scalar=1 / scale)


def _mean(s: GraphSketch, x: int) -> int:
    return s.apply("mean", x, axes=[-1], keepdim=True)


# -- attention


@block
def attention_by_hand(s: GraphSketch) -> int:
    heads, rows, width = s.draw.integer(1, 4), s.sizes(), s.draw.choice((4, 8, 16))
    queries, keys, values = (s.input(2, heads, rows, width) for _ in range(3))
    made = _scores(s, queries, keys)
    if s.draw.chance(0.5):
        made = s.apply("add", made, s.input(rows, rows))
    elif s.draw.chance(0.5):
        made = s.apply("masked_fill", made, s.input(rows, rows, dtype="bool"), value=-10000.0)
    return s.apply("matmul", s.apply("softmax", made, axis=-1), values)


@block
def attention_block(s: GraphSketch) -> int:
    """Draw an attention block: projections, split and joined heads, and the residual connection."""
    heads, width = s.draw.choice((1, 2, 4)), s.draw.choice((2, 4, 8))
    rows = s.sizes()
    x = s.input(1, rows, heads * width)

    def split() -> int:
        made = s.apply("linear", x, s.weights(heads * width, heads * width), s.weights(heads * width))
        return s.apply("permute", s.apply("reshape", made, shape=[1, rows, heads, width]), axes=[0, 2, 1, 3])

    weights = s.apply("softmax", _scores(s, split(), split()), axis=-1)
    joined = s.apply("permute", s.apply("matmul", weights, split()), axes=[0, 2, 1, 3])
    return s.apply("add", x, s.apply("reshape", joined, shape=[1, rows, heads * width]))


@block
def attention_with_positions(s: GraphSketch) -> int:
    """Draw a rotary embedding: halves rotated by angles."""
    rows, width = s.sizes(), s.draw.choice((2, 4, 8))
    x = s.input(2, rows, 2 * width)
    cosine, sine = s.input(rows, 2 * width), s.input(rows, 2 * width)
    left = s.apply("narrow", x, axis=-1, start=0, length=width)
    right = s.apply("narrow", x, axis=-1, start=width, length=width)
    turned = s.apply("concat", s.apply("neg", right), left, axis=-1)
    return s.apply("add", s.apply("mul", x, cosine), s.apply("mul", turned, sine))


# -- norms


@block
def layer_norm_by_hand(s: GraphSketch) -> int:
    width = s.sizes()
    x = s.input(s.draw.integer(1, 5), width)
    centred = s.apply("sub", x, _mean(s, x))
    squared = s.apply("square", centred) if s.draw.chance(0.5) else s.apply("mul", centred, centred)
    spread = s.apply("add_scalar", _mean(s, squared), scalar=_EPS)
    if s.draw.chance(0.5):
        made = s.apply("mul", centred, s.apply("rsqrt", spread))
    else:
        made = s.apply("div", centred, s.apply("sqrt", spread))
    return s.apply("add", s.apply("mul", made, s.weights(width)), s.weights(width))


@block
def rms_norm_by_hand(s: GraphSketch) -> int:
    width = s.sizes()
    x = s.input(s.draw.integer(1, 5), width)
    mean = _mean(s, s.apply("square", x))
    made = s.apply("mul", x, s.apply("rsqrt", s.apply("add_scalar", mean, scalar=_EPS)))
    return s.apply("mul", made, s.weights(width))


@block
def residual_norm(s: GraphSketch) -> list[int]:
    width = s.sizes()
    left, right = s.input(2, 3, width), s.input(2, 3, width)
    added = s.apply("add", left, right)
    normal = s.apply(s.either("layer_norm", "rms_norm"), added, axes=1)
    return [normal, added]


@block
def norm_of_channels(s: GraphSketch) -> int:
    x = s.input(2, 4, s.draw.integer(3, 8), s.draw.integer(3, 8))
    made = s.apply("conv2d", x)
    return _activated(s, s.apply(s.either("batch_norm", "group_norm", "instance_norm"), made))


# -- chains of layers


@block
def linear_chain(s: GraphSketch) -> int:
    rows, width, hidden = s.draw.integer(1, 5), s.sizes(), s.draw.choice((4, 8, 17))
    x = s.input(rows, width)
    made = _activated(s, s.apply("linear", x, s.weights(hidden, width), s.weights(hidden)))
    return s.apply("linear", made, s.weights(width, hidden), s.weights(width))


@block
def gated_linear(s: GraphSketch) -> int:
    rows, width, hidden = s.draw.integer(1, 5), s.sizes(), s.draw.choice((4, 8, 17))
    x = s.input(rows, width)
    gate = s.apply(s.either("silu", "gelu", "sigmoid"), s.apply("linear", x, s.weights(hidden, width)))
    made = s.apply("mul", gate, s.apply("linear", x, s.weights(hidden, width)))
    return s.apply("linear", made, s.weights(width, hidden))


@block
def products_side_by_side(s: GraphSketch) -> list[int]:
    """Draw three products of one value, which compilers combine into one."""
    width = s.sizes()
    x = s.input(3, width)
    return [s.apply("mm", x, s.weights(width, s.draw.integer(1, 9))) for _ in range(3)]


@block
def product_with_bias(s: GraphSketch) -> int:
    width, out = s.sizes(), s.draw.integer(1, 17)
    made = s.apply("matmul", s.input(s.draw.integer(1, 4), 3, width), s.weights(width, out))
    return _activated(s, s.apply("add", made, s.weights(out)))


@block
def product_of_transposed(s: GraphSketch) -> int:
    rows, width = s.draw.integer(1, 9), s.sizes()
    left = s.apply("transpose", s.input(width, rows), one=0, other=1)
    right = s.apply("transpose", s.input(s.draw.integer(1, 9), width), one=0, other=1)
    return s.apply("mm", left, right)


@block
def conv_block(s: GraphSketch) -> int:
    x = s.input(1, 4, s.draw.integer(4, 9), s.draw.integer(4, 9))
    made = s.apply("relu", s.apply("batch_norm", s.apply("conv2d", x)))
    return s.apply("mean", made, axes=[2, 3], keepdim=s.draw.chance(0.5))


@block
def shapes_and_back(s: GraphSketch) -> int:
    """Draw a transposition and its inverse around an elementwise operator."""
    rows, columns = s.draw.integer(2, 9), s.sizes()
    x = s.apply("permute", s.input(2, rows, columns), axes=[0, 2, 1])
    return s.apply("permute", _activated(s, x), axes=[0, 2, 1])


@block
def pointwise_chain(s: GraphSketch) -> list[int]:
    """Draw a long chain of elementwise operators over broadcast shapes, with a value that is read twice."""
    rows, columns = s.draw.integer(1, 9), s.sizes()
    x = s.input(rows, columns)
    made = s.apply(s.either("add", "mul", "sub"), x, s.input(columns))
    kept = _activated(s, made)
    made = s.apply(s.either("maximum", "minimum", "mul"), kept, s.input(rows, 1))
    made = s.apply("where", made, s.input(rows, columns, dtype="bool"), x)
    return [s.apply("sum", s.apply("exp", s.apply("neg", s.apply("abs", made))), axes=[-1], keepdim=False), kept]


# -- losses and choices


@block
def cross_entropy_by_hand(s: GraphSketch) -> int:
    classes = s.sizes()
    made = s.apply("log_softmax", s.input(4, classes), axis=-1)
    picked = s.apply("gather", made, s.input(4, 1, dtype="int64", values=f"index:{classes}"), axis=1)
    return s.apply("neg", s.apply("mean", picked, axes=[0], keepdim=False))


@block
def softmax_by_hand(s: GraphSketch) -> int:
    x = s.input(s.draw.integer(1, 5), s.sizes())
    powers = s.apply("exp", s.apply("sub", x, s.apply("amax", x, axes=[-1], keepdim=True)))
    return s.apply("div", powers, s.apply("sum", powers, axes=[-1], keepdim=True))


@block
def best_of_scores(s: GraphSketch) -> list[int]:
    x = s.input(3, s.sizes())
    scores = s.apply("softmax", x, axis=-1)
    return [*s.apply_all("topk", scores, k=1, axis=-1, largest=True), s.apply("argmax", scores, axis=-1, keepdim=False)]


@block
def looked_up_and_summed(s: GraphSketch) -> int:
    rows, width = s.draw.integer(3, 17), s.sizes()
    found = s.apply("embedding", s.weights(rows, width), s.input(2, 4, dtype="int64", values=f"index:{rows}"))
    return s.apply("sum", s.apply("mul", found, s.input(2, 4, 1)), axes=[1], keepdim=False)


# -- quantised by hand


@block
def quantised_and_back(s: GraphSketch) -> int:
    x = s.input(s.draw.integer(1, 5), s.sizes())
    scaled = s.apply("round", s.apply("mul_scalar", x, scalar=s.draw.choice((16.0, 32.0))))
    kept = s.apply("cast", s.apply("clamp", scaled, min=-128.0, max=127.0), to="int8")
    return s.apply("mul_scalar", s.apply("cast", kept, to=s.dtype), scalar=0.03125)


@block
def product_of_integers(s: GraphSketch) -> int:
    """Draw a product with eight-bit weights that are widened, multiplied and scaled."""
    width = s.sizes()
    weights = s.apply("cast", s.constant(width, 5, dtype="int8"), to=s.dtype)
    return s.apply("mul_scalar", s.apply("matmul", s.input(3, width), weights), scalar=0.015625)


# -- memory


@block
def written_through_a_view(s: GraphSketch) -> list[int]:
    """Draw a write into a view, followed by a read of the whole tensor (torch only)."""
    rows, width = s.draw.integer(2, 6), s.sizes()
    x = s.input(rows, width)
    base = s.apply("add_scalar", x, scalar=1.0)
    row = s.apply("select", base, axis=0, index=s.draw.integer(0, rows - 1))
    written = s.apply(s.either("relu_", "sigmoid_", "add_itself_"), row)
    return [s.apply("mul_scalar", base, scalar=2.0), written]


@block
def outputs_that_share_memory(s: GraphSketch) -> list[int]:
    x = s.input(s.draw.integer(2, 6), s.sizes())
    made = _activated(s, x)
    return [made, s.apply("transpose", made, one=0, other=1), s.apply("narrow", made, axis=0, start=0, length=1), x]
