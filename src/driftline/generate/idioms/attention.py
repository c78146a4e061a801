"""Idioms of attention as exporters write it, with masks, heads and embeddings."""

from __future__ import annotations

from driftline.generate.idioms.normalisation import layer_norm
from driftline.generate.idioms.sketch import Sketch, idiom

BATCH, LENGTH, HEADS, WIDTH = 2, 4, 2, 4
HIDDEN = HEADS * WIDTH


def projected(s: Sketch, x: str, size: int = HIDDEN) -> str:
    return str(s.node("Add", s.node("MatMul", x, s.weights(size, HIDDEN)), s.weights(HIDDEN)))


def in_heads(s: Sketch, x: str, perm: tuple[int, ...] = (0, 2, 1, 3)) -> str:
    return str(s.node("Transpose", s.node("Reshape", x, s.ints(0, 0, HEADS, WIDTH)), perm=list(perm)))


def additive_mask(s: Sketch) -> str:
    """Add a mask that is 0 where a token counts and a large negative number elsewhere."""
    wide = s.input(BATCH, LENGTH, dtype="int64", values="index:2")
    for axis in (1, 2):
        wide = s.node("Unsqueeze", wide, axes=[axis]) if s.opset < 13 else s.node("Unsqueeze", wide, s.ints(axis))
    return str(s.node("Mul", s.node("Sub", s.const(1.0), s.writer.cast(wide, "float32")), s.const(-10000.0)))


def self_attention(s: Sketch, x: str) -> str:
    """Add the attention block of a text encoder, with the residual connection."""
    query, value = in_heads(s, projected(s, x)), in_heads(s, projected(s, x))
    key = in_heads(s, projected(s, x), (0, 2, 3, 1))
    scores = s.node("Div", s.node("MatMul", query, key), s.const(2.0))
    weights = s.node("Softmax", s.node("Add", scores, additive_mask(s)), axis=3)
    mixed = s.node("Transpose", s.node("MatMul", weights, value), perm=[0, 2, 1, 3])
    joined = s.node("Reshape", mixed, s.ints(0, 0, HIDDEN))
    return str(s.node("Add", projected(s, joined), x))


@idiom
def attention_bert(s: Sketch) -> str:
    s.opset, s.open_sizes = 12, True
    x = layer_norm(s, s.input(BATCH, LENGTH, HIDDEN), HIDDEN)
    return layer_norm(s, self_attention(s, x), HIDDEN)


@idiom
def attention_bert_new(s: Sketch) -> str:
    s.opset, s.open_sizes = 17, True
    x = s.node("LayerNormalization", s.input(BATCH, LENGTH, HIDDEN), s.weights(HIDDEN), s.weights(HIDDEN), axis=-1)
    return self_attention(s, x)


@idiom
def attention_plain(s: Sketch) -> str:
    query, key, value = (s.input(BATCH, HEADS, LENGTH, WIDTH) for _ in range(3))
    scores = s.node("MatMul", query, s.node("Transpose", key, perm=[0, 1, 3, 2]))
    weights = s.node("Softmax", s.node("Mul", scores, s.const(0.5)), axis=-1)
    return str(s.node("MatMul", weights, value))


@idiom
def attention_masked(s: Sketch) -> str:
    query, key, value = (s.input(BATCH, HEADS, LENGTH, WIDTH) for _ in range(3))
    scaled = s.node("Mul", query, s.const(0.5))
    scores = s.node("MatMul", scaled, s.node("Transpose", key, perm=[0, 1, 3, 2]))
    weights = s.node("Softmax", s.node("Add", scores, s.input(BATCH, 1, LENGTH, LENGTH)), axis=-1)
    return str(s.node("MatMul", weights, value))


@idiom
def attention_where(s: Sketch) -> str:
    query, key, value = (s.input(BATCH, HEADS, LENGTH, WIDTH) for _ in range(3))
    scores = s.node("MatMul", query, s.node("Transpose", key, perm=[0, 1, 3, 2]))
    hidden = s.input(BATCH, 1, LENGTH, LENGTH, dtype="bool")
    return str(s.node("MatMul", s.node("Softmax", s.node("Where", s.node("Not", hidden), scores, s.const(-1e4)),
                                       axis=-1), value))  # fmt: skip


@idiom
def attention_operator(s: Sketch) -> str:
    s.opset = 23
    query, key, value = (s.input(BATCH, LENGTH, HIDDEN) for _ in range(3))
    return str(s.node("Attention", query, key, value, q_num_heads=HEADS, kv_num_heads=HEADS))


def embeddings(s: Sketch) -> str:
    words = s.node("Gather", s.weights(11, HIDDEN), s.input(BATCH, LENGTH, dtype="int64", values="index:11"))
    places = s.node("Gather", s.weights(7, HIDDEN), s.const([[0, 1, 2, 3]] * BATCH, "int64"))
    segments = s.node("Gather", s.weights(2, HIDDEN), s.input(BATCH, LENGTH, dtype="int64", values="index:2"))
    return str(s.node("Add", s.node("Add", words, places), segments))


@idiom
def embedded(s: Sketch) -> str:
    """Draw the embeddings of a text encoder: words, positions and segments, added and normalised."""
    s.opset = 13
    return layer_norm(s, embeddings(s), HIDDEN)


@idiom
def embedded_attention(s: Sketch) -> str:
    s.opset, s.open_sizes = 12, True
    return self_attention(s, layer_norm(s, embeddings(s), HIDDEN))


@idiom
def rotary(s: Sketch) -> str:
    """Draw a rotary embedding: the halves of each head, rotated against each other."""
    x = s.input(BATCH, HEADS, LENGTH, WIDTH)
    front = s.node("Slice", x, s.ints(0), s.ints(WIDTH // 2), s.ints(3), s.ints(1))
    back = s.node("Slice", x, s.ints(WIDTH // 2), s.ints(2**31 - 1), s.ints(3), s.ints(1))
    turned = s.node("Concat", s.node("Neg", back), front, axis=-1)
    cosine, sine = s.weights(1, 1, LENGTH, WIDTH), s.weights(1, 1, LENGTH, WIDTH)
    return str(s.node("Add", s.node("Mul", x, cosine), s.node("Mul", turned, sine)))
