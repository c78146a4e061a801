"""The operators' forms in TensorFlow.

They are separate from the operator table, since TensorFlow's operators and the dtypes of its CPU kernels differ more
from the other languages than those differ among themselves.

Eager execution defines the meaning of a program, so an operator has a form here only if a TensorFlow user would write
it, and only in dtypes for which eager execution has a kernel.
"""

from __future__ import annotations

from driftline.generate.operator import HALVES, SIGNED, WIDE_UNSIGNED, Form, Operator, Text
from driftline.generate.tf_forms import chosen, layout, pointwise, sums, windows

_TEXTS: dict[str, Text] = {
    **pointwise.TEXTS, **layout.TEXTS, **sums.TEXTS, **windows.TEXTS, **chosen.TEXTS,
}  # fmt: skip
_UNSIGNED = ("uint8", *WIDE_UNSIGNED)
# Dtypes of a row of the table that eager execution on a CPU has no kernel for, or no exact one.
_LACKING: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("abs", "neg", "sign", "int_pow"), _UNSIGNED),
    **dict.fromkeys(("avg_pool3d", "max_pool3d"), ("float64", "float16")),
    **dict.fromkeys(("gelu", "gelu_tanh"), ("float64",)),  # their constants are float32
    **dict.fromkeys(("index_fill", "pad_constant"), ("bool",)),  # the value that they write is a number
    **dict.fromkeys(("repeat_interleave", "tile"), ("uint16",)),
    "fmod": HALVES,
    "int_fmod": ("int16", "int8", *_UNSIGNED),
    "one_hot": ("int16",),
    "topk": (*SIGNED, "uint8"),  # the smallest are the largest of the negated, which the least integer has not
    "upsample_linear_size": ("float64", *HALVES),  # the result is always float32
}
_RANKS = dict.fromkeys(("upsample_nearest_exact", "upsample_linear_size"), (4, 4))


def tf_form(operator: Operator) -> Form | None:
    """Return the TensorFlow form of an operator, in the dtypes of its jnp (or torch) form that TensorFlow supports;
    None if there is none."""
    text = _TEXTS.get(operator.name)
    like = operator.jnp or operator.torch
    if text is None or like is None:
        return None
    lacking = _LACKING.get(operator.name, ())
    return Form(text, tuple(dtype for dtype in like.dtypes if dtype not in lacking), _RANKS.get(operator.name))


assert set(_LACKING) | set(_RANKS) <= set(_TEXTS)
