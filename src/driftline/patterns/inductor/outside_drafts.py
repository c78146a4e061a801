"""Programs for rewrites outside the pattern tables: fusions of sibling operations, and operations that do nothing. The
operator of each program follows from the rule's name or target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx as fx
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from driftline.core.rule import FUSION, NO_OP, Rule
from driftline.patterns.inductor.draft import Draft, DraftLeaf
from driftline.patterns.inductor.placing import placing, rules_device

SIBLINGS = 6  # a fusion wants several of the same kind, at least five
_ROWS, _COLUMNS = 4, 8
_FLOAT, _INTEGER = DraftLeaf((_ROWS, _COLUMNS), torch.float32), DraftLeaf((_ROWS, _COLUMNS), torch.int32)

_SIBLING: dict[str, Callable[..., Any]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": F.relu,
    "detach": torch.detach,
    "nan_to_num": torch.nan_to_num,
    "clamp": lambda x: torch.clamp(x, -0.5, 0.5),
    "dropout": lambda x: F.dropout(x, 0.5, False),
    "aten_tanh": torch.tanh,
    "aten_sigmoid": torch.sigmoid,
    "aten_relu": torch.relu,
    "aten_add": torch.add,
    "aten_sub": torch.sub,
    "aten_mul": torch.mul,
    "aten_div": torch.div,
    "linear": F.linear,
    "linear_lhs": F.linear,
    "layernorm": lambda x, w, b: F.layer_norm(x, (_COLUMNS,), w, b),
    "linear_post_grad": F.linear,
}
_VECTOR, _SQUARE = DraftLeaf((_COLUMNS,), torch.float32), DraftLeaf((_COLUMNS, _COLUMNS), torch.float32)
_OPERANDS: dict[str, tuple[DraftLeaf, ...]] = {
    **dict.fromkeys(("aten_add", "aten_sub", "aten_mul", "aten_div"), (_FLOAT, _FLOAT)),
    **dict.fromkeys(("linear", "linear_lhs", "linear_post_grad"), (_FLOAT, _SQUARE, _VECTOR)),
    "layernorm": (_FLOAT, _VECTOR, _VECTOR),
}

# Something before and after it: a graph's own inputs and outputs are not touched.
_IDLE: dict[str, tuple[Callable[[Any], Any], DraftLeaf]] = {
    "aten.slice.Tensor": (lambda x: torch.ops.aten.slice.Tensor(x + 1, 1, 0, _COLUMNS) * 2, _FLOAT),
    "aten.slice_scatter.default": (lambda x: torch.slice_scatter(x + 1, x * 3) * 2, _FLOAT),
    "aten.repeat.default": (lambda x: (x + 1).repeat(1, 1) * 2, _FLOAT),
    "aten.constant_pad_nd.default": (lambda x: torch.constant_pad_nd(x + 1, [0, 0]) * 2, _FLOAT),
    "prims.convert_element_type.default": (lambda x: torch.softmax((x + 1), -1, dtype=torch.float32) * 2, _FLOAT),
    "prims.device_put.default": (lambda x: torch.ops.prims.device_put.default(x + 1, rules_device()) * 2, _FLOAT),
    "aten.ceil.default": (lambda x: torch.ops.aten.ceil.default(x + 1) * 2, _INTEGER),
    "aten.floor.default": (lambda x: torch.ops.aten.floor.default(x + 1) * 2, _INTEGER),
    "aten.round.default": (lambda x: torch.ops.aten.round.default(x + 1) * 2, _INTEGER),
    "aten.round.decimals": (lambda x: torch.round(x + 1, decimals=0) * 2, _INTEGER),
    "aten.trunc.default": (lambda x: torch.ops.aten.trunc.default(x + 1) * 2, _INTEGER),
    "aten.pow.Tensor_Scalar": (lambda x: torch.pow(x + 1, 1) * 2, _FLOAT),
    "aten.cat.default": (lambda x: torch.cat([x + 1]) * 2, _FLOAT),
    "aten.view.default": (lambda x: (x + 1).view(_ROWS, _COLUMNS) * 2, _FLOAT),
    "aten.view.dtype": (lambda x: (x + 1).view(torch.float32) * 2, _FLOAT),
    "aten.alias.default": (lambda x: torch.ops.aten.alias.default(x + 1) * 2, _FLOAT),
    "aten.clone.default": (lambda x: (x + 1).clone() * 2, _FLOAT),
    "aten.copy.default": (lambda x: torch.ops.aten.copy.default(x + 1, x * 3) * 2, _FLOAT),
}


def outside_draft(rule: Rule) -> Draft | None:
    """Return the program for a rule; None if there is none."""
    if rule.kind == FUSION and (name := rule.name.removeprefix("batch_")) in _SIBLING:
        leaves = _OPERANDS.get(name, (_FLOAT,))
        return _traced(_siblings(name, len(leaves)), _leaves(name, leaves), rule)
    if rule.kind == NO_OP and rule.name in _IDLE:
        function, leaf = _IDLE[rule.name]
        return _traced(function, {"x": leaf}, rule)
    return None


def _leaves(name: str, leaves: tuple[DraftLeaf, ...]) -> dict[str, DraftLeaf]:
    shared = 1 if name == "linear_lhs" else 0  # one input, several weights
    return {
        f"x{sibling}_{at}" if at >= shared else f"x_{at}": leaf
        for sibling in range(SIBLINGS)
        for at, leaf in enumerate(leaves)
    }


def _siblings(name: str, operands: int) -> Callable[..., Any]:
    apply = _SIBLING[name]
    shared = name == "linear_lhs"

    def function(*given: Any) -> Any:
        if shared:
            first, rest = given[0], given[1:]
            groups = [(first, *rest[at : at + operands - 1]) for at in range(0, len(rest), operands - 1)]
        else:
            groups = [given[at : at + operands] for at in range(0, len(given), operands)]
        return tuple(apply(*group) for group in groups)

    return function


def _traced(function: Callable[..., Any], leaves: dict[str, DraftLeaf], rule: Rule) -> Draft:
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph)
    nodes = [graph.placeholder(name) for name in leaves]
    result = function(*(fx.Proxy(node, tracer) for node in nodes))
    outputs = result if isinstance(result, tuple) else (result,)
    graph.output(tuple(output.node for output in outputs))
    with FakeTensorMode() as mode, placing():
        examples = [torch.empty(leaf.shape, dtype=leaf.dtype) for leaf in leaves.values()]
    FakeTensorProp(fx.GraphModule(torch.nn.Module(), graph), mode).propagate_dont_convert_inputs(*examples)
    return Draft(graph, dict(leaves), needs=rule.needs)
