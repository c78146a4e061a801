"""Apply one rule alone, preceded by the rules that make operators it needs, to a graph without data."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
import torch._inductor.pattern_matcher as pm
import torch.fx as fx
from torch._inductor import config
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode

from driftline.backends.inductor_options import inductor_config
from driftline.backends.inductor_rules.recorder import recorder
from driftline.backends.inductor_rules.registry import Registered, find
from driftline.core.rule import Reach
from driftline.patterns.inductor.draft import Draft
from driftline.patterns.inductor.placing import placing


@dataclass(frozen=True)
class Alone:
    """How far a rule came when applied alone."""

    reach: Reach
    error: str = ""
    milliseconds: float = 0.0


def alone(registered: Registered, draft: Draft) -> Alone:
    """Apply just this rule, after its producers, to the draft's graph."""
    started = time.perf_counter()
    module = _module(draft)
    mode = next((v.fake_mode for v in (n.meta.get("val") for n in module.graph.nodes) if hasattr(v, "fake_mode")), None)
    error = ""
    settings = {**inductor_config(dict(draft.needs)), "force_disable_caches": True}
    surroundings = config.patch(settings), V.set_fake_mode(mode or FakeTensorMode()), torch.no_grad()
    with surroundings[0], surroundings[1], surroundings[2], recorder().recording() as activity:
        try:
            for each in (*(find(rule) for rule in reversed(draft.producers)), registered):
                _only(each).apply(module.graph)
        except Exception as raised:  # a rule may fail on this draft; the whole compiler decides
            error = f"{type(raised).__name__}: {raised}"
    seen = activity.get(registered.rule.id)
    spent = 1000 * (time.perf_counter() - started)
    if seen is None:
        return Alone(Reach.BUILT, error, spent)
    return Alone(Reach.FIRED_ALONE if seen.changed else Reach.MATCHED, seen.error or error, spent)


def _only(registered: Registered) -> pm.PatternMatcherPass:
    """Return the rule's pattern table with only this rule in it."""
    table = pm.PatternMatcherPass(pass_name="alone")
    for key, entries in registered.table.patterns.items():
        if any(entry is registered.entry for entry in entries):
            table.patterns[key].append(registered.entry)
    recorder().adopt(table, registered.table)
    return table


def _module(draft: Draft) -> fx.GraphModule:
    """Return the graph in a module that owns the tensors and submodules it reads. The tensors still have no data."""
    copied, _ = draft.copy()
    root = torch.nn.Module()
    for node in copied.graph.nodes:
        if node.op == "get_attr":
            root.register_buffer(str(node.target), node.meta["val"])
    for name, owned in draft.owned.items():
        if isinstance(owned, str):
            with placing():
                root.add_module(name, eval(owned, {"torch": torch}).eval())
    return fx.GraphModule(root, copied.graph)
