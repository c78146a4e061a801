"""Checks the graphs of `torch.compile` against a profile, and runs them: shared by all mock backends.

A `GraphChecker` gets each graph as it is compiled, and adds violations to its report. The backend that owns it decides
what to do about them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from driftline.hardware.compute import DeviceInterpreter
from driftline.hardware.fx_facts import facts_of, line_in
from driftline.hardware.known_operators import unknown_operators
from driftline.hardware.profile import Profile
from driftline.hardware.report import ConstraintReport, GraphBreak, GraphSummary
from driftline.hardware.violation import Violation

GraphCallable = Callable[..., Any]
Lowering = Callable[..., GraphCallable]  # (graph module, example inputs) -> a callable


class GraphChecker:
    """Checks graphs one after another, and collects the results in one report."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.report = ConstraintReport(profile.name, notes=unknown_operators(profile))
        self._breaks_before = _breaks_counted()

    def check(self, module: Any, name: str) -> list[Violation]:
        """Return the violations of a graph module, and add them to the report."""
        found: list[Violation] = []
        for graph in facts_of(module, name):
            own = self.profile.violations(graph)
            self.report.graphs.append(GraphSummary.of(graph, len(own), module.code if graph.name == name else ""))
            found += own
        self.report.violations += found
        return found

    def note_break(self, module: Any) -> None:
        """Add to the report the graph break after which this graph ended, if there was one."""
        reason = getattr(module, "compile_subgraph_reason", None)
        if reason is not None and reason.graph_break:
            frame = next(reversed(reason.user_stack or []), None)
            text = f'  File "{frame.filename}", line {frame.lineno}, in f\n    {frame.line or ""}' if frame else ""
            self.report.breaks.append(GraphBreak(_first_words(reason.reason), line_in(text) if text else None))

    def settle(self) -> ConstraintReport:
        """Return the report, with the number of graph breaks that left no graph."""
        counted = _breaks_counted() - self._breaks_before
        self.report.unseen_breaks = max(0, counted - len(self.report.breaks))
        return self.report


def lower_plainly(profile: Profile, module: Any) -> GraphCallable:
    """Return a callable that runs the graph: with the device's arithmetic if the profile has one, else as it is."""
    if profile.arithmetic:
        return DeviceInterpreter(module, profile.arithmetic).run
    forward: GraphCallable = module.forward
    return forward


def lower_by_aot(
    module: Any,
    inputs: Sequence[Any],
    forward: Callable[[Any], GraphCallable],
    backward: Callable[[Any], GraphCallable],
) -> GraphCallable:
    """Run AOTAutograd on a module; `forward` and `backward` check and lower its graphs."""
    import torch._functorch.config
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    backend = aot_autograd(
        fw_compiler=lambda graph, _: make_boxed_func(forward(graph)),
        bw_compiler=lambda graph, _: make_boxed_func(backward(graph)),
        partition_fn=min_cut_rematerialization_partition,
    )
    # A graph out of the cache would not be checked.
    with torch._functorch.config.patch(enable_autograd_cache=False):
        compiled: GraphCallable = backend(module, inputs)
    return compiled


def lower_by_inductor(module: Any, inputs: Sequence[Any], check: Callable[[Any, str], None]) -> GraphCallable:
    """Compile with TorchInductor; `check` is called with each forward and backward graph before code is generated."""
    import torch._functorch.config
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def inner(graph: Any, example_inputs: Any, **settings: Any) -> Any:
        check(graph, "backward" if settings.get("is_backward") else "forward")
        return compile_fx_inner(graph, example_inputs, **settings)

    with torch._functorch.config.patch(enable_autograd_cache=False):
        compiled: GraphCallable = compile_fx(module, list(inputs), inner_compile=inner)
    return compiled


def _breaks_counted() -> int:
    from torch._dynamo.utils import counters

    return sum(counters["graph_break"].values())


def _first_words(reason: str) -> str:
    """Return the first two lines of Dynamo's reason for a break: what it met, and the explanation."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    return " ".join(lines[:2])
