"""TorchInductor without code generation: Dynamo, AOTAutograd and every graph pass, in a fraction of a second.

The result is a graph that still runs (unless a rule put a lowering into it), so it also shows whether the passes
preserved the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo
import torch._inductor.compile_fx as compile_fx
import torch.fx as fx
from torch._functorch.aot_autograd import make_boxed_func
from torch._inductor import config
from torch._inductor.fx_passes.post_grad import view_to_reshape
from torch._inductor.pattern_matcher import LoweringPatternEntry
from torch._inductor.virtualized import V

from driftline.backends.inductor_options import inductor_config
from driftline.backends.inductor_rules.recorder import RuleActivity, recorder
from driftline.backends.inductor_rules.registry import registered
from driftline.patterns.inductor.draft import live
from driftline.patterns.inductor.placing import end_if_lost


@dataclass
class Passed:
    """The result of running the passes on a program."""

    activity: dict[str, RuleActivity]
    outputs: list[torch.Tensor] | None = None  # of the graph after all passes; None where it does not run
    error: str = ""  # the compiler's error, if any
    graphs: list[fx.GraphModule] = field(default_factory=list)

    @property
    def fired(self) -> set[str]:
        """The rules of the pattern tables that changed the graph."""
        return {rule for rule in self.rewrites if "/" not in rule}

    @property
    def rewrites(self) -> set[str]:
        """All rewrites that changed the graph: rules, and also passes, no-op removals and decompositions outside the
        tables."""
        return {rule for rule, activity in self.activity.items() if activity.changed}


def run_passes(
    text: str,
    needs: Mapping[str, str],
    *,
    training: bool = False,
    dynamic: bool = False,
    forbidden: frozenset[str] = frozenset(),
    run: bool = True,
) -> Passed:
    """Compile the program as `torch.compile` would with these options, up to code generation, and run the result.

    Without `run` the result is not run, since private operators may kill the process.
    """
    how = PassCompilation(needs, training, dynamic)
    return pass_through(*live(text), how, forbidden=forbidden, run=run)


@dataclass(frozen=True)
class PassCompilation:
    """How a program is compiled: with which options, with gradients, with dynamic sizes."""

    needs: Mapping[str, str]
    training: bool = False
    dynamic: bool = False


def pass_through(
    model: Callable[..., Any],
    inputs: Sequence[Any],
    how: PassCompilation,
    *,
    forbidden: frozenset[str] = frozenset(),
    run: bool = True,
) -> Passed:
    """Like `run_passes`, for a model and inputs that are already loaded."""
    torch._dynamo.reset()
    graphs: list[fx.GraphModule] = []
    settings = {**inductor_config(how.needs), "force_disable_caches": True}
    with config.patch(settings), recorder().recording(forbidden) as activity:
        passed = Passed(activity, graphs=graphs)
        compiled = torch.compile(model, backend=_stop_before_code(graphs, run=run), dynamic=how.dynamic)
        try:
            passed.outputs = results(compiled, inputs, training=how.training)
        except _NotRun:
            return passed
        except Exception as error:
            if any(_has_lowering(graph.graph) for graph in graphs):
                return passed  # all passes ran; the graph they made is for code generation only
            end_if_lost()
            passed.error = f"{type(error).__name__}: {error}"
    return passed


def results(function: Callable[..., Any], inputs: Sequence[Any], *, training: bool) -> list[torch.Tensor]:
    """Run a program and return its tensors; with `training` also the gradients of its inputs."""
    if not training:
        with torch.no_grad():
            return [leaf for leaf in _leaves(function(*_fresh(inputs))) if isinstance(leaf, torch.Tensor)]
    given = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    outputs = [leaf for leaf in _leaves(function(*given)) if isinstance(leaf, torch.Tensor)]
    loss = sum(out.double().sum() for out in outputs if out.requires_grad)
    if isinstance(loss, torch.Tensor):
        loss.backward()
    return [out.detach() for out in outputs] + [x.grad for x in given if x.grad is not None]


def _fresh(inputs: Sequence[Any]) -> list[Any]:
    """Return copies of the inputs, since a program may write into them."""
    return [x.clone() if isinstance(x, torch.Tensor) and x.is_contiguous() else x for x in inputs]


def _leaves(value: Any) -> list[Any]:
    return list(torch.utils._pytree.tree_leaves(value))


class _NotRun(BaseException):
    """Raised instead of running a graph. Not an Exception, so that no handler takes it for a failure."""


def _not_run(*_: object) -> Any:
    raise _NotRun


def _stop_before_code(graphs: list[fx.GraphModule], *, run: bool) -> Callable[..., Any]:
    def inner(graph: fx.GraphModule, example_inputs: Sequence[Any], **settings: Any) -> Any:
        view_to_reshape(graph)
        with torch.no_grad():
            fake = compile_fx.fake_tensor_prop(graph, example_inputs)
        with V.set_fake_mode(fake):
            compile_fx._recursive_post_grad_passes(graph, is_inference=settings.get("is_inference", False))
        graphs.append(graph)
        return make_boxed_func(graph.forward if run else _not_run)

    def backend(graph: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        return compile_fx.compile_fx(graph, inputs, inner_compile=inner)

    return backend


def _has_lowering(graph: fx.Graph) -> bool:
    """True if a rule put a lowering into the graph, which only code generation understands."""
    handlers = {
        getattr(each.entry, "handler", None) for each in registered() if isinstance(each.entry, LoweringPatternEntry)
    }
    return any(
        node.op == "call_function" and getattr(node.target, "func", node.target) in handlers for node in graph.nodes
    )
