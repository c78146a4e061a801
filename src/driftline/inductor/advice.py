"""Advice on graph breaks and recompilations: a table of remedies that are known to help."""

from __future__ import annotations

import re

# (what torch says, what to do). The first that fits is taken; {0} and on are its groups.
_BREAKS = (
    (
        r"Tensor\.item\(\)|Tensor\.tolist\(\)|_local_scalar_dense|scalar from tensor",
        "Avoid .item(): keep the value as a tensor, or set torch._dynamo.config.capture_scalar_outputs = True.",
    ),
    (
        r"[Dd]ata-dependent (?:branching|jump|control flow)|generic_jump",
        "The branch depends on the values of a tensor: use torch.where to compute both sides, or torch.cond.",
    ),
    (r"`print`|builtin operator `print`|builtin print", "Remove the print, or move it out of the compiled function."),
    (r"logging", "Move the logging call out of the compiled function."),
    (r"graph_break\(\)", "The break was asked for: remove the call of torch._dynamo.graph_break()."),
    (r"[Dd]ynamic (?:shape operator|slicing)|nonzero|unique|masked_select|data-dependent (?:output|shape)",
     "The shape of a result depends on values: set torch._dynamo.config.capture_dynamic_output_shape_ops = True."),
    (r"numpy", "Compute it with torch, or move the numpy call out of the compiled function."),
    (r"skip(?:ped|file)|marked as skipped|torch\._dynamo\.disable|torch\.compiler\.disable",
     "The called function is one that Dynamo does not trace: move the call out, or use torch.compiler.allow_in_graph."),
    (r"C/C\+\+|pybind|custom op|not yet supported|Attempted to call function",
     "Register the function as an operator with torch.library.custom_op, so that Dynamo need not trace it."),
    (r"context manager", "Open the context manager outside the compiled function."),
    (r"generator|yield", "Return a list instead of a generator, or move the loop out of the compiled function."),
)  # fmt: skip
_RECOMPILES = (
    (
        r"tensor '(.+?)' size mismatch at index (\d+)",
        "Dimension {1} of {0} varies: torch._dynamo.mark_dynamic({0}, {1}) before the first call, or"
        " torch.compile(..., dynamic=True); or pad it to few sizes.",
    ),
    (r"tensor '(.+?)' stride mismatch", "The layout of {0} varies: call {0}.contiguous() before the model."),
    (r"tensor '(.+?)' dtype mismatch", "The dtype of {0} varies: convert it to one dtype before the call."),
    (r"tensor '(.+?)' rank mismatch", "The number of dimensions of {0} varies: reshape it before the call."),
    (r"tensor '(.+?)' requires_grad mismatch", "{0} sometimes needs a gradient: keep requires_grad the same."),
    (r"tensor '(.+?)' (?:device|dispatch key)", "{0} comes from several devices or modes: move it before the call."),
    (
        r"(\w+(?:\.\w+)+) == (-?\d+)\s",
        "{0} is a number that changes between calls, and torch takes it for a constant: keep it in a tensor buffer,"
        " change it outside the compiled function, or set torch._dynamo.config.allow_unspec_int_on_nn_module = True.",
    ),
    (
        r"(\w+) == (-?[\d.]+)\s",
        "The number {0} varies: pass it as a tensor, or torch.compile(..., dynamic=True) for sizes.",
    ),
    (r"(\w+) == ['\"]", "{0} is text that varies, and every value is compiled anew: choose the function outside."),
    (r"len\((.+?)\) ==", "The length of {0} varies: pass a tensor, or a list of one length."),
    (r"___check_obj_id\((.+?),", "{0} is another object each time: make it once, outside the compiled function."),
    (r"grad_mode|GLOBAL_STATE|___check_global_state", "Settings of torch change between calls (no_grad, autocast)."),
    (r"\.size\(\)\[(\d+)\]", "A size passes a limit that the code depends on: keep it on one side, or pad it."),
)


def advice_for_break(text: str) -> str:
    return _find(_BREAKS, text)


def advice_for_recompile(reason: str) -> str:
    return _find(_RECOMPILES, f"{reason.splitlines()[0] if reason else ''} ")


def _find(table: tuple[tuple[str, str], ...], text: str) -> str:
    for pattern, told in table:
        match = re.search(pattern, text)
        if match:
            return told.format(*match.groups())
    return ""
