"""Finds rules that can never fire here, because no graph contains what their pattern needs, or they require a GPU."""

from __future__ import annotations

from typing import Any

import torch
import torch._inductor.pattern_matcher as pm

from driftline.backends.inductor_rules.needs import parts_of
from driftline.core.rule import Rule

_GPU = "GPU only"
# Conditions and handlers that require a GPU, with the test that they make.
_ASK_FOR_GPU = {
    "should_pad_mm": "pad_mm.check_device",
    "should_pad_bmm": "pad_mm.check_device",
    "should_pad_addmm": "pad_mm.check_device",
    "should_prefer_unfused_addmm": "is_gpu",
    "bmm_to_mm": "check_device of get_gpu_type",
    "b2b_gemm_handler": "is_b2b_gemm_good_on: is_cuda or is_xpu",
    "fix_iota_device": "device.type != user_device.type: tensors on two devices",
}
# Handlers that never get past their own first test.
_REFUSE = {
    "merge_unbind_stack_aten": "its handler looks for nodes that call aten.select, and nodes call aten.select.int",
}
# Where modules have been taken apart and writes in place have been made into new values.
_BEFORE_GRADIENTS = ("pre_grad", "efficient_conv_bn_eval", "apply_gumbel_max_trick")


def out_of_reach(rule: Rule, entry: Any) -> tuple[str, bool]:
    """Return why a rule cannot fire here (empty if no reason is known), and whether that holds on every machine."""
    asked = _ASK_FOR_GPU.get(rule.check) or _ASK_FOR_GPU.get(rule.name)
    if asked and not torch.cuda.is_available() and not torch.xpu.is_available():
        return f"{_GPU}: it asks {asked}", False
    if rule.name in _REFUSE:
        return f"dead: {_REFUSE[rule.name]}", True
    functional = not rule.group.startswith(_BEFORE_GRADIENTS)
    for part in parts_of(entry.pattern):
        if isinstance(part, pm._TargetExpr):
            never = _never_in_a_graph(part, functional)
            if never:
                return f"dead: {never}", True
    return "", False


def _never_in_a_graph(part: Any, functional: bool) -> str:
    first = part.fns[0]
    if isinstance(part, (pm.CallModule, pm.CallModuleVarArgs)):
        return "Dynamo leaves no calls of modules in a graph (inline_inbuilt_nn_modules)"
    if "OpsWrapper" in f"{first} {getattr(first, '__self__', '')}":
        return "an operation of code generation is never in a graph"
    if all(isinstance(fn, torch._ops.OpOverloadPacket) for fn in part.fns):
        return f"{first} without an overload is never in a graph"
    overloads = [fn for fn in part.fns if isinstance(fn, torch._ops.OpOverload)]
    if len(overloads) != len(part.fns):
        return ""
    if functional and all(fn._schema.is_mutable and fn.namespace == "aten" for fn in overloads):
        return f"{first} writes in place, and graphs do not at this stage"
    if isinstance(part, pm._TargetArgsExpr) and not any(_can_be_called(fn, part) for fn in overloads):
        return f"{first} takes another number of arguments"
    return ""


def _can_be_called(overload: Any, part: Any) -> bool:
    arguments = overload._schema.arguments
    required = [argument for argument in arguments if not argument.has_default_value()]
    given = len(part.args) + len(part.kwargs)
    return len(required) <= given <= len(arguments)
