"""Converts the options of Inductor targets to Inductor's configuration, for the backends and for scripts."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from driftline.backends.base import BOOLEAN_VALUES
from driftline.core.rule import ONE_PASS
from driftline.core.target import listed

# target option -> Inductor configuration key
CONFIG = {
    "freezing": "freezing",
    "pattern_matcher": "pattern_matcher",
    "epilogue_fusion": "epilogue_fusion",
    "constant_folding": "joint_graph_constant_folding",
    "max_autotune": "max_autotune",
    "layout": "layout_optimization",
    "simdlen": "cpp.simdlen",
    "fusion_size": "max_fusion_size",
    "shape_padding": "shape_padding",
    "linear_folding": "enable_linear_binary_folding",
    "conv_bn_eval": "efficient_conv_bn_eval_fx_passes",
    "b2b_gemm": "b2b_gemm_pass",
    "partitioned_scatter": "partitioned_scatter_enabled",
    "concat_linear": "cpp.enable_concat_linear",
    "inject_relu_bug": "cpp.inject_relu_bug_TESTING_ONLY",
}

# Options of the targets that are not in the configuration
NOT_CONFIG = frozenset({"dynamic", "fusions", "forbid", ONE_PASS, "device", "arithmetic"})

# Fusions by name run after gradients are taken when their names say so; a few do without saying it.
_AFTER = frozenset({"batch_linear_post_grad", "group_linear", "decompose_mm_pass", "pad_aten_mm_pass"})
# A size limit of the pass itself, lowered so that small programs are rewritten as large ones are.
_LIMITS = {"decompose_mm_pass": {"min_first_dimension_size": 2, "min_first_dimension_size_cpu": 2}}


def inductor_config(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the Inductor configuration for a target's options."""
    config: dict[str, Any] = {
        CONFIG.get(key, key): value_of(text) for key, text in options.items() if key not in NOT_CONFIG
    }
    for name in listed(options, "fusions"):
        config.setdefault(_stage(name), {})[name] = dict(_LIMITS.get(name, {}))
    return config


def inductor_settings_text(options: Mapping[str, str]) -> str:
    """Return the configuration as statements to copy; empty if an option has no switch in Inductor."""
    if {"forbid", ONE_PASS} & options.keys():  # rules, passes, decompositions and lowerings have no switch of their own
        return ""
    return ", ".join(f"torch._inductor.config.{key} = {value!r}" for key, value in inductor_config(options).items())


def _stage(name: str) -> str:
    after = "aten" in name or name in _AFTER or name.endswith("_post_grad")
    return "post_grad_fusion_options" if after else "pre_grad_fusion_options"


def value_of(text: str) -> object:
    """Parse a Python value as people write it: true, none, 3, 0.5, [1, 2]; anything else is text."""
    plain: dict[str, object] = {**BOOLEAN_VALUES, "none": None}
    if text.lower() in plain:
        return plain[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
