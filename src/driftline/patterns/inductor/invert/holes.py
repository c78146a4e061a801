"""Values for the holes of patterns, by the name of the hole where the rule's author gave it a telling one."""

from __future__ import annotations

from typing import Any

import torch

_HALF, _BRAIN, _SINGLE = torch.float16, torch.bfloat16, torch.float32

# dtype of a tensor, by the name of its hole
DTYPES: dict[str, torch.dtype] = {
    "weight": torch.int8, "w1": torch.int8, "w2": torch.int8, "w3": torch.int8, "q_weight": torch.int8,
    "selector": torch.int64,
}  # fmt: skip

# tensors with one number for each column
BIASES = frozenset({"b", "bias"})

# tensors that must have been bytes
DEQUANTISED = frozenset({"accum_after_dequant"})

# values that are no tensors, by the name of the hole, the likeliest first
VALUES: dict[str, tuple[Any, ...]] = {
    "to_float": (_SINGLE,),
    "to_bf16": (_BRAIN,),
    "to_fp16": (_HALF,),
    "dtype_fp16": (_HALF,),
    "dtype_fp32": (_SINGLE,),
    "autocast_act_dtype": (_BRAIN,),
    "autocast_wgt_dtype": (_BRAIN,),
    "convert_dtype_after_inplace_add": (_BRAIN,),
    "min_value": (-1.0, 0.0),
    "max_value": (1.0, 6.0),
    "negative_slope": (0.1, 0.01),
    "alpha": (1,),
    "beta": (1,),
}

# values by kind of parameter
KINDS: dict[str, tuple[Any, ...]] = {
    "number": (0.5, 2.0, 1, 3, -0.5),
    "int": (1, 0, 2),
    "bool": (False, True),
    "dtype": (_SINGLE, _BRAIN, _HALF, torch.float64),
    "device": (torch.device("cpu"),),
    "layout": (torch.strided,),
    "format": (torch.contiguous_format, torch.channels_last),
    "generator": (None,),
}


def main_dtype(pattern_text: str) -> torch.dtype:
    """Return the dtype that a rule computes in, guessed from its pattern."""
    if "to_fp16" in pattern_text:
        return _HALF
    if "mkldnn._linear_pointwise" in pattern_text and not _packs_single_alike():
        return _BRAIN
    if any(sign in pattern_text for sign in ("to_bf16", "KeywordArg(scales)")):
        return _BRAIN  # packed int8 weights go with bfloat16
    return _SINGLE


def _packs_single_alike() -> bool:
    """True if float32 linear layers are packed by the same operator as bfloat16 ones. That is so on Arm; on x86, MKL
    packs float32 into another operator."""
    return bool(torch.ops.mkldnn._is_mkldnn_acl_supported())
