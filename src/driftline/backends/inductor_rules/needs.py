"""The options of a target without which a rule cannot fire."""

from __future__ import annotations

import re
from typing import Any

import torch._inductor.pattern_matcher as pm

_SINGLE = {
    "efficient_conv_bn_eval": ("conv_bn_eval", "true"),
    "b2b_gemm": ("b2b_gemm", "true"),
    "reduced_atomic_contention": ("partitioned_scatter", "true"),
}
_NORMALISATION = {"pre_grad": "normalization_pass", "post_grad": "normalization_aten_pass"}


def needs_of(group: str, name: str, text: str) -> tuple[tuple[str, str], ...]:
    """Return the options of the `inductor` target under which the rule's table is applied."""
    module = group.partition(".")[0]
    needs = {}
    if key := re.search(r"_GRAD_PATTERNS\['(\w+)'\]", group):
        first = _NORMALISATION[module]  # brings a program into the shape that the others expect
        needs["fusions"] = "+".join(dict.fromkeys((first, key[1])))
    if module in _SINGLE:
        option, value = _SINGLE[module]
        needs[option] = value
    if module == "freezing_patterns" or _made_by_freezing(text):
        needs["freezing"] = "true"
    if group == "freezing_patterns.binary_folding_pass":
        needs["linear_folding"] = "true"
    if name == "mm_plus_mm":  # its check asks for it first
        needs["max_autotune"] = "true"
    if "concat_linear" in name or "fuse_pattern" in name:
        needs["concat_linear"] = "true"
    return tuple(sorted(needs.items()))


def _made_by_freezing(text: str) -> bool:
    """True if the text has operators that only the freezing passes put into a graph."""
    return "mkldnn._" in text or "onednn." in text


def parts_of(pattern: Any) -> list[Any]:
    """Return the pattern and every pattern inside it."""
    found = [pattern]
    for part in found:
        if isinstance(part, pm.MultiOutputPattern):
            found += [output for output in part.outputs if output is not None]
        elif isinstance(part, pm.RepeatedExpr):
            found.append(part.inner_pattern)
        elif isinstance(part, pm.ListOf):
            found.append(part.pattern)
        elif isinstance(part, pm._TargetArgsExpr):
            found += [item for item in part.flat_args_kwargs[0] if isinstance(item, pm.PatternExpr)]
    return found
