"""Attributes of ONNX operators that take one of a few words, and the words that each opset allows.

`onnx.defs` declares these attributes as free text, so `onnx.checker` accepts words of later versions: a
`ScatterElements` of opset 17 with `reduction="max"`, which appeared in opset 18. The lists below are those of the
descriptions in `onnx.defs`; `tests/programs/test_onnx_valid.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# By opset version of the operator: the words from that version on, until the next one that is listed.
_AllowedWords = Mapping[int, tuple[str, ...]]

_AUTO_PAD: _AllowedWords = {1: ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")}
_DIRECTION: _AllowedWords = {1: ("forward", "reverse", "bidirectional")}
_LOSS: _AllowedWords = {12: ("none", "sum", "mean")}
_SCATTER: _AllowedWords = {16: ("none", "add", "mul"), 18: ("none", "add", "mul", "max", "min")}
_DEPTH: _AllowedWords = {11: ("DCR", "CRD")}
_ROUND: _AllowedWords = {24: ("up", "down", "nearest")}
_UPSAMPLE = ("nearest", "linear", "bilinear", "trilinear")
_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")

WORDS: Mapping[tuple[str, str], _AllowedWords] = {
    **{
        (operator, "auto_pad"): _AUTO_PAD
        for operator in ("AveragePool", "Conv", "ConvInteger", "ConvTranspose", "LpPool", "MaxPool", "QLinearConv")
    },
    **{(operator, "direction"): _DIRECTION for operator in ("GRU", "LSTM", "RNN")},
    ("BitShift", "direction"): {11: ("LEFT", "RIGHT")},
    ("Cast", "round_mode"): _ROUND,
    ("CastLike", "round_mode"): _ROUND,
    ("CausalConvWithState", "activation"): {27: ("silu", "swish", "none")},
    ("DepthToSpace", "mode"): _DEPTH,
    ("Gelu", "approximate"): {20: ("none", "tanh")},
    ("GridSample", "mode"): {16: ("bilinear", "nearest", "bicubic"), 20: ("linear", "nearest", "cubic")},
    ("GridSample", "padding_mode"): {16: ("zeros", "border", "reflection")},
    ("ImageDecoder", "pixel_format"): {20: ("RGB", "BGR", "Grayscale")},
    ("LinearAttention", "update_rule"): {27: ("linear", "gated", "delta", "gated_delta")},
    ("NegativeLogLikelihoodLoss", "reduction"): _LOSS,
    ("Pad", "mode"): {1: ("constant", "reflect", "edge"), 19: ("constant", "reflect", "edge", "wrap")},
    ("Resize", "coordinate_transformation_mode"): {
        11: (*_COORDINATES, "tf_half_pixel_for_nn"),
        13: _COORDINATES,
        19: (*_COORDINATES, "half_pixel_symmetric"),
    },
    ("Resize", "keep_aspect_ratio_policy"): {18: ("stretch", "not_larger", "not_smaller")},
    ("Resize", "mode"): {10: _UPSAMPLE, 11: ("nearest", "linear", "cubic")},
    ("Resize", "nearest_mode"): {11: ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")},
    ("RoiAlign", "coordinate_transformation_mode"): {16: ("half_pixel", "output_half_pixel")},
    ("RoiAlign", "mode"): {10: ("avg", "max")},
    ("ScatterElements", "reduction"): _SCATTER,
    ("ScatterND", "reduction"): _SCATTER,
    ("SoftmaxCrossEntropyLoss", "reduction"): _LOSS,
    ("SpaceToDepth", "mode"): {28: _DEPTH[11]},
    ("StringNormalizer", "case_change_action"): {10: ("LOWER", "UPPER", "NONE")},
    ("TensorScatter", "mode"): {24: ("linear", "circular")},
    ("TfIdfVectorizer", "mode"): {9: ("TF", "IDF", "TFIDF")},
    ("Upsample", "mode"): {1: ("nearest", "bilinear"), 7: _UPSAMPLE},
}


def unknown_word(node: Any, opset: int) -> str:
    """Say which attribute has a word that this opset does not know, and since when it exists; empty if none has."""
    for attribute in node.attribute:
        versions = WORDS.get((node.op_type, attribute.name))
        if versions is None or attribute.type != attribute.STRING:
            continue
        word = attribute.s.decode("utf-8", "replace")
        known = words_at(versions, opset)
        if known and word not in known:
            return f"{node.op_type} has {attribute.name}={word!r}{_when(versions, opset, word)}"
    return ""


def words_at(versions: _AllowedWords, opset: int) -> tuple[str, ...]:
    """Return the words that an opset allows; empty if the attribute does not exist yet."""
    since = max((version for version in versions if version <= opset), default=None)
    return () if since is None else versions[since]


def _when(versions: _AllowedWords, opset: int, word: str) -> str:
    later = [version for version in sorted(versions) if version > opset and word in versions[version]]
    if later:
        return f" only from opset {later[0]} on"
    dropped = [version for version in sorted(versions) if version <= opset and word not in versions[version]]
    if any(word in known for known in versions.values()):
        return f" only up to opset {dropped[-1] - 1}"
    return f", which is none of {', '.join(words_at(versions, opset))}"
