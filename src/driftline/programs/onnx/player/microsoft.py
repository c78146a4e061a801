"""The player's contrib operators of ONNX Runtime (domain com.microsoft)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from driftline.programs.onnx.player.call import MICROSOFT, NodeCall, Unplayable, onnx_op
from driftline.programs.onnx.player.convolution import convolution
from driftline.programs.onnx.player.matrices import gemm
from driftline.programs.onnx.player.norms import layer_normalisation, rms_normalised
from driftline.programs.onnx.player.quantised import dynamic_quantise, matmul_integer

# -- activations and products ----------------------------------------------------------------------------------------


@onnx_op("Gelu", domain=MICROSOFT)
def gelu(call: NodeCall, x: Tensor) -> Tensor:
    return F.gelu(x)


@onnx_op("FastGelu", domain=MICROSOFT)
def fast_gelu(call: NodeCall, x: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.gelu(x if bias is None else x + bias, approximate="tanh")


@onnx_op("BiasGelu", domain=MICROSOFT)
def bias_gelu(call: NodeCall, x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


@onnx_op("QuickGelu", domain=MICROSOFT)
def quick_gelu(call: NodeCall, x: Tensor) -> Tensor:
    return x * torch.sigmoid(call.attr("alpha", 1.702) * x)


@onnx_op("BiasSoftmax", domain=MICROSOFT)
def bias_softmax(call: NodeCall, x: Tensor, bias: Tensor) -> Tensor:
    axis = call.attr("axis", 1) % x.dim()
    total = x + bias
    flat = total.reshape(math.prod(total.shape[:axis]), -1)
    return torch.softmax(flat, 1).reshape(total.shape)


_ACTIVATIONS = {
    "Relu": lambda x, p: torch.relu(x),
    "Sigmoid": lambda x, p: torch.sigmoid(x),
    "Tanh": lambda x, p: torch.tanh(x),
    "LeakyRelu": lambda x, p: torch.where(x < 0, p[0] * x, x),
    "Clip": lambda x, p: torch.clamp(x, p[0], p[1]),
    "HardSigmoid": lambda x, p: torch.clamp(p[0] * x + p[1], 0, 1),
    "": lambda x, p: x,
}


def _activated(call: NodeCall, x: Tensor) -> Tensor:
    name = call.attr("activation", b"").decode()
    if name not in _ACTIVATIONS:
        raise Unplayable(f"{call.op_type} with the activation {name}")
    parameters = call.attr("activation_params") or [
        call.attr("activation_alpha", 0.01), call.attr("activation_beta", 0.0)
    ]  # fmt: skip
    return _ACTIVATIONS[name](x, parameters)


@onnx_op("FusedConv", domain=MICROSOFT)
def fused_convolution(
    call: NodeCall, x: Tensor, w: Tensor, bias: Tensor | None = None, z: Tensor | None = None
) -> Tensor:
    made = convolution(call, x, w, bias)
    return _activated(call, made if z is None else made + z)


@onnx_op("FusedGemm", domain=MICROSOFT)
def fused_gemm(call: NodeCall, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    return _activated(call, gemm(call, a, b, c))


@onnx_op("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(call: NodeCall, a: Tensor, b: Tensor) -> Tensor:
    if call.attr("transBatchA", 0) or call.attr("transBatchB", 0):
        raise Unplayable("FusedMatMul with transposed batches")
    a = a.transpose(-1, -2) if call.attr("transA", 0) and a.dim() > 1 else a
    b = b.transpose(-1, -2) if call.attr("transB", 0) and b.dim() > 1 else b
    alpha = call.attr("alpha", 1.0)
    made = torch.matmul(a, b)
    return made if alpha == 1 else alpha * made


@dataclass(frozen=True)
class IntegerProductInputs:
    """The inputs of MatMulIntegerToFloat: two matrices of codes, with their scales and zero points."""

    a: Tensor
    b: Tensor
    a_scale: Tensor
    b_scale: Tensor
    a_zero: Tensor | None = None
    b_zero: Tensor | None = None
    bias: Tensor | None = None


@onnx_op("MatMulIntegerToFloat", domain=MICROSOFT, inputs=IntegerProductInputs)
def matmul_integer_to_float(call: NodeCall, given: IntegerProductInputs) -> Tensor:
    codes = matmul_integer(call, given.a, given.b, given.a_zero, given.b_zero)
    made = codes.to(given.a_scale.dtype) * (given.a_scale * given.b_scale)
    return made if given.bias is None else made + given.bias


@onnx_op("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantise_matmul(
    call: NodeCall, a: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    codes, scale, zero = dynamic_quantise(call, a)
    return matmul_integer_to_float(call, IntegerProductInputs(codes, b, scale, b_scale, zero, b_zero, bias))


@onnx_op("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(
    call: NodeCall, a: Tensor, packed: Tensor, scales: Tensor, zeros: Tensor | None = None, *more: Any
) -> Tensor:
    """Multiply by weights of few bits, in blocks along the inner axis with a scale and an optional zero point each."""
    if more and more[0] is not None:
        raise Unplayable("MatMulNBits with group indices")
    inner, outer, block, bits = call.attr("K"), call.attr("N"), call.attr("block_size"), call.attr("bits", 4)
    if call.attr("accuracy_level", 0) > 1:
        raise Unplayable("MatMulNBits that may round its input to 16 or 8 bits (accuracy_level)")
    if bits not in (4, 8):
        raise Unplayable(f"MatMulNBits with {bits} bits")
    blocks = -(-inner // block)
    codes = _unpacked(packed.reshape(outer, blocks, -1), bits).reshape(outer, blocks, block).to(scales.dtype)
    if zeros is None:
        middle: Any = float(2 ** (bits - 1))
    elif zeros.dtype.is_floating_point:
        middle = zeros.reshape(outer, blocks, 1)
    else:
        middle = _unpacked(zeros.reshape(outer, -1), bits)[:, :blocks].reshape(outer, blocks, 1).to(scales.dtype)
    weights = ((codes - middle) * scales.reshape(outer, blocks, 1)).reshape(outer, -1)[:, :inner]
    made = torch.matmul(a, weights.t().to(a.dtype))
    return made + more[1] if len(more) > 1 and more[1] is not None else made


def _unpacked(data: Tensor, bits: int) -> Tensor:
    if bits == 8:
        return data
    return torch.stack((data & 15, data >> 4), dim=-1).reshape(*data.shape[:-1], -1)


# -- norms -----------------------------------------------------------------------------------------------------------


@onnx_op("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalisation(
    call: NodeCall, x: Tensor, skip: Tensor, gamma: Tensor, beta: Tensor | None = None, bias: Tensor | None = None
) -> Any:
    total = x + skip if bias is None else x + skip + bias
    plain = NodeCall("LayerNormalization", "", 17, {"epsilon": call.attr("epsilon", 1e-12)}, ("y", "mean", "inverse"))
    made, mean, inverse = layer_normalisation(plain, total, gamma, beta)
    return (made, mean, inverse, total)[: len(call.outputs)]


@onnx_op("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalisation(
    call: NodeCall, x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None
) -> Any:
    total = x + skip if bias is None else x + skip + bias
    made, inverse = rms_normalised(total, gamma, [total.dim() - 1], call.attr("epsilon", 1e-12), call)
    return (made, inverse, inverse, total)[: len(call.outputs)]


@dataclass(frozen=True)
class EmbeddingInputs:
    """The inputs of EmbedLayerNormalization."""

    ids: Tensor
    segments: Tensor | None
    words: Tensor  # the table of the ids
    places: Tensor  # the table of the positions
    kinds: Tensor | None  # the table of the segments
    gamma: Tensor
    beta: Tensor
    mask: Tensor | None = None
    positions: Tensor | None = None


@onnx_op("EmbedLayerNormalization", domain=MICROSOFT, inputs=EmbeddingInputs)
def embed_layer_normalisation(call: NodeCall, given: EmbeddingInputs) -> Any:
    ids, positions, mask = given.ids, given.positions, given.mask
    at = torch.arange(ids.shape[1]).expand(ids.shape) if positions is None else positions.to(torch.int64)
    total = given.words[ids.to(torch.int64)] + given.places[at]
    if given.segments is not None and given.kinds is not None:
        total = total + given.kinds[given.segments.to(torch.int64)]
    plain = NodeCall("LayerNormalization", "", 17, {"epsilon": call.attr("epsilon", 1e-12)}, ("y",))
    (made,) = layer_normalisation(plain, total, given.gamma, given.beta)
    counts = (
        torch.zeros(ids.shape[0], dtype=torch.int32) if mask is None else mask.to(torch.int32).sum(1, dtype=torch.int32)
    )
    return (made, counts, total)[: len(call.outputs)]


# -- attention -------------------------------------------------------------------------------------------------------


def _heads(x: Tensor, count: int) -> Tensor:
    batch, length, width = x.shape
    return x.reshape(batch, length, count, width // count).transpose(1, 2)


def _merged(x: Tensor) -> Tensor:
    batch, heads, length, width = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * width)


def _attended(q: Tensor, k: Tensor, v: Tensor, scale: float, bias: Tensor | None) -> Tensor:
    scores = torch.matmul(q, k.transpose(-1, -2)) * (scale or 1 / math.sqrt(q.shape[-1]))
    scores = scores if bias is None else scores + bias
    return torch.matmul(torch.softmax(scores, -1), v)


def _causal(queries: int, keys: int, dtype: torch.dtype) -> Tensor:
    allowed = torch.arange(keys)[None, :] <= torch.arange(queries)[:, None] + (keys - queries)
    return torch.where(allowed, 0.0, torch.finfo(dtype).min).to(dtype)


def _mask_bias(mask: Tensor | None, call: NodeCall, like: Tensor, keys: int) -> Tensor | None:
    if mask is None:
        return None
    if mask.dim() not in (2, 3) or mask.shape[-1] != keys:
        raise Unplayable(f"{call.op_type} with a mask of shape {list(mask.shape)}")
    hidden = call.attr("mask_filter_value", -10000.0)
    bias = torch.where(mask != 0, 0.0, hidden).to(like.dtype)
    return bias[:, None, None, :] if mask.dim() == 2 else bias[:, None]


def _score_bias(call: NodeCall, given: AttentionInputs | HeadsInputs, q: Tensor, k: Tensor) -> Tensor | None:
    """Return what is added to the attention scores: the mask, the causal mask and the bias of the node."""
    total = _mask_bias(given.mask, call, q, k.shape[2])
    if call.attr("unidirectional", 0):
        causal = _causal(q.shape[2], k.shape[2], q.dtype)
        total = causal if total is None else total + causal
    if given.attention_bias is not None:
        total = given.attention_bias if total is None else total + given.attention_bias
    return total


@dataclass(frozen=True)
class AttentionInputs:
    """The inputs of Attention; `w` and `bias` compute queries, keys and values from `x`."""

    x: Tensor
    w: Tensor
    bias: Tensor | None = None
    mask: Tensor | None = None
    past: Tensor | None = None
    attention_bias: Tensor | None = None


@onnx_op("Attention", domain=MICROSOFT, inputs=AttentionInputs)
def attention(call: NodeCall, given: AttentionInputs) -> Any:
    x, w, past = given.x, given.w, given.past
    if call.attr("do_rotary", 0):
        raise Unplayable("Attention with rotary embedding")
    heads, sizes = call.attr("num_heads"), call.ints("qkv_hidden_sizes") or [w.shape[1] // 3] * 3
    projected = torch.matmul(x, w) if given.bias is None else torch.matmul(x, w) + given.bias
    q, k, v = (_heads(part, heads) for part in projected.split(sizes, dim=-1))
    if past is not None:
        k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
    total = _score_bias(call, given, q, k)
    made = _merged(_attended(q, k, v, call.attr("scale", 0.0), total))
    return (made, torch.stack((k, v)))[: len(call.outputs)]


@dataclass(frozen=True)
class HeadsInputs:
    """The inputs of MultiHeadAttention."""

    query: Tensor
    key: Tensor | None = None
    value: Tensor | None = None
    bias: Tensor | None = None
    mask: Tensor | None = None
    attention_bias: Tensor | None = None
    past_key: Tensor | None = None
    past_value: Tensor | None = None


@onnx_op("MultiHeadAttention", domain=MICROSOFT, inputs=HeadsInputs)
def multi_head_attention(call: NodeCall, given: HeadsInputs) -> Any:
    query, key, value, bias = given.query, given.key, given.value, given.bias
    heads = call.attr("num_heads")
    if key is None or value is None or query.dim() != 3:
        raise Unplayable("MultiHeadAttention with packed inputs")
    width = query.shape[-1]
    if bias is not None:
        query, bias = query + bias[:width], bias[width:]
        if key.dim() == 3:
            key, value = key + bias[: key.shape[-1]], value + bias[key.shape[-1] :]
    q = _heads(query, heads)
    k, v = (part if part.dim() == 4 else _heads(part, heads) for part in (key, value))
    if given.past_key is not None and given.past_value is not None:
        k, v = torch.cat((given.past_key, k), 2), torch.cat((given.past_value, v), 2)
    total = _score_bias(call, given, q, k)
    return (_merged(_attended(q, k, v, call.attr("scale", 0.0), total)), k, v)[: len(call.outputs)]


@onnx_op("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(call: NodeCall, x: Tensor, positions: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    flat = x.dim() == 3
    width = call.attr("rotary_embedding_dim", 0)
    heads = call.attr("num_heads", 0)
    if flat:
        size = x.shape[-1] // heads if heads else cosines.shape[1] * 2
        x = x.reshape(x.shape[0], x.shape[1], -1, size).transpose(1, 2)
    length = x.shape[2]
    places = positions.reshape(-1, 1) + torch.arange(length)[None, :] if positions.numel() == 1 else positions
    made = rotated(
        x, cosines[places.to(torch.int64)], sines[places.to(torch.int64)], width, bool(call.attr("interleaved", 0))
    )
    return _merged(made) if flat else made


def rotated(x: Tensor, cosines: Tensor, sines: Tensor, width: int, interleaved: bool) -> Tensor:
    """Return x (batch, heads, length, size) rotated by the angles (batch, length, half)."""
    width = width or x.shape[-1]
    turned, rest = x[..., :width], x[..., width:]
    half = width // 2
    first, second = (turned[..., 0::2], turned[..., 1::2]) if interleaved else (turned[..., :half], turned[..., half:])
    c, s = cosines[:, None, :, :half], sines[:, None, :, :half]
    real, imaginary = first * c - second * s, second * c + first * s
    made = torch.stack((real, imaginary), -1).flatten(-2) if interleaved else torch.cat((real, imaginary), -1)
    return torch.cat((made, rest), -1)


@dataclass(frozen=True)
class GroupQueryInputs:
    """The inputs of GroupQueryAttention."""

    query: Tensor
    key: Tensor | None
    value: Tensor | None
    past_key: Tensor | None
    past_value: Tensor | None
    lengths: Tensor
    total_length: Tensor
    cosines: Tensor | None = None
    sines: Tensor | None = None


@onnx_op("GroupQueryAttention", domain=MICROSOFT, inputs=GroupQueryInputs)
def group_query_attention(call: NodeCall, given: GroupQueryInputs) -> Any:
    query, key, value, past_key, past_value = given.query, given.key, given.value, given.past_key, given.past_value
    if call.attr("softcap", 0.0) or call.attr("local_window_size", -1) != -1 or call.attr("smooth_softmax", 0):
        raise Unplayable("GroupQueryAttention with a soft cap, a window or a smooth softmax")
    heads, shared = call.attr("num_heads"), call.attr("kv_num_heads")
    if key is None or value is None:
        size = query.shape[-1] // (heads + 2 * shared)
        query, key, value = query.split([heads * size, shared * size, shared * size], dim=-1)
    q, k, v = _heads(query, heads), _heads(key, shared), _heads(value, shared)
    length, total = q.shape[2], int(given.total_length)
    ends = given.lengths.reshape(-1).to(torch.int64) + 1
    if bool((ends != total).any()):
        raise Unplayable("GroupQueryAttention on rows of different lengths")
    before = total - length
    if call.attr("do_rotary", 0):
        cosines, sines = given.cosines, given.sines
        assert cosines is not None and sines is not None
        places = torch.arange(before, total).expand(q.shape[0], -1)
        interleaved = bool(call.attr("rotary_interleaved", 0))
        q, k = (rotated(x, cosines[places], sines[places], 2 * cosines.shape[1], interleaved) for x in (q, k))
    if past_key is not None and past_value is not None:
        k, v = torch.cat((past_key[:, :, :before], k), 2), torch.cat((past_value[:, :, :before], v), 2)
    repeat = heads // shared
    wide_k, wide_v = (x.repeat_interleave(repeat, dim=1) for x in (k, v))
    made = _merged(_attended(q, wide_k, wide_v, call.attr("scale", 0.0), _causal(length, total, q.dtype)))
    return (made, k, v)[: len(call.outputs)]
