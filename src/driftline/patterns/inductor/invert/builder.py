"""Build a whole program for a rule: the pattern turned into nodes, with readers and outputs around it."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.fx as fx

from driftline.backends.inductor_rules.registry import Registered
from driftline.patterns.inductor.draft import Draft
from driftline.patterns.inductor.invert.inverter import Inverter
from driftline.patterns.inductor.invert.wish import Wish


def build(registered: Registered, attempt: int) -> Draft:
    """Return a program that contains the rule's pattern, deterministic for a rule and attempt. Attempt 0 is the
    simplest."""
    inverter = Inverter(registered, attempt)
    made = inverter.part(registered.entry.pattern, Wish())
    roots: list[fx.Node] = made if isinstance(made, list) else [made]
    inverter.bench.graph.output(tuple(_outputs(inverter, roots)))
    return Draft(
        inverter.bench.graph,
        inverter.bench.inputs,
        inverter.bench.owned,
        _needs(inverter),
        producers=tuple(inverter.producers),
    )


def _needs(inverter: Inverter) -> tuple[tuple[str, str], ...]:
    """Return the options that the rule needs. In odd attempts the pass that normalises programs first is left out."""
    needs = dict(inverter.registered.rule.needs)
    _, _, rest = needs.get("fusions", "").partition("+")
    if rest and inverter.bench.attempt % 2:
        needs["fusions"] = rest
    return tuple(sorted(needs.items()))


def _outputs(inverter: Inverter, roots: list[fx.Node]) -> list[fx.Node]:
    """Return the outputs of the program: the pattern's results, sometimes read by an operator first, and all unused
    results."""
    bench = inverter.bench
    results = [item for root in roots for item in _items(inverter, root)]
    for _ in range(bench.choose(0, 0, 1, 2)):
        results += [_read(inverter, node) for node in results[: len(roots)]]
    loose = [
        node
        for node in bench.graph.nodes
        if node.op.startswith("call") and not node.users and isinstance(node.meta["val"], torch.Tensor)
    ]
    return list(dict.fromkeys([*results, *loose]))


def _items(inverter: Inverter, node: fx.Node) -> list[fx.Node]:
    """Return the tensors of a node that may have several results."""
    value = node.meta["val"]
    if not isinstance(value, (tuple, list)):
        return [node]
    taken = {user.args[1]: user for user in node.users if user.target is operator.getitem}
    items: list[fx.Node] = []
    for at, item in enumerate(value):
        if isinstance(item, torch.Tensor):
            found: Any = taken.get(at) or inverter.bench.call("call_function", operator.getitem, (node, at), {})
            items.append(found)
    return items


def _read(inverter: Inverter, node: fx.Node) -> fx.Node:
    function = torch.neg if node.meta["val"].dtype.is_signed else torch.bitwise_not
    if inverter.registered.rule.group.startswith(("pre_grad", "efficient", "apply_gumbel")):
        if inverter.bench.choose(True, False):
            return inverter.bench.call("call_function", operator.add, (node, 1), {})
        return inverter.bench.call("call_function", function, (node,), {})
    overload = torch.ops.aten.neg.default if node.meta["val"].dtype.is_signed else torch.ops.aten.bitwise_not.default
    return inverter.bench.call("call_function", overload, (node,), {})
