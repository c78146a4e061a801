"""Trigger rewrites outside the pattern tables: programs written for fusions and no-op removals, and the operator tests
of PyTorch for passes, decompositions and lowerings. Lowering is run too, but not code generation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache

import torch
import torch._inductor.compile_fx as compile_fx
import torch.fx as fx
from torch._guards import detect_fake_mode
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V

from driftline.backends.inductor_rules.outside import outside_rules
from driftline.backends.inductor_rules.recorder import recorder
from driftline.core.rule import Rule
from driftline.generate import GENERATORS
from driftline.generate.base import GeneratorRequest, NoProgram
from driftline.patterns.inductor.draft import Draft
from driftline.patterns.inductor.outside_drafts import outside_draft
from driftline.patterns.inductor.pipeline import run_passes

TESTS = "optests"  # the generator


@cache
def outside_by_id() -> dict[str, Rule]:
    return {rule.id: rule for rule in outside_rules()}


def draft_outside(rule_id: str) -> Draft:
    """Return the program for a fusion or a no-op removal. Raises LookupError if there is none."""
    draft = outside_draft(outside_by_id()[rule_id])
    if draft is None:
        raise LookupError(f"there is no program for {rule_id}")
    return draft


def subjects() -> list[str]:
    """Return the subjects that can be swept: rules with a program of their own, and operators of PyTorch's operator
    tests."""
    written = [rule.id for rule in outside_rules() if not rule.unreachable and outside_draft(rule)]
    try:
        return [*written, *GENERATORS.get(TESTS).arms("torch")]
    except ModuleNotFoundError:  # the operator tests of PyTorch need packages that it does not install
        return written


def sweep(subject: str, seed: int) -> set[str]:
    """Return every rule and pass that changed the programs of one subject."""
    seen: set[str] = set()
    for text, needs in _programs(subject, seed):
        passed = run_passes(text, needs, run=False)
        seen |= passed.rewrites | _lowered(passed.graphs)
    return seen


def _programs(subject: str, seed: int) -> Iterator[tuple[str, dict[str, str]]]:
    if subject in outside_by_id():
        draft = draft_outside(subject)
        yield draft.text(), dict(draft.needs)
        return
    with contextlib.suppress(NoProgram):
        made = GENERATORS.get(TESTS).make(GeneratorRequest("torch", subject, 0, seed))
        if isinstance(made.content, str):
            yield made.content, {}


def _lowered(graphs: list[fx.GraphModule]) -> set[str]:
    """Return the operators that Inductor lowers in these graphs. Errors are ignored: a real compilation reports
    them."""
    seen: set[str] = set()
    for graph in graphs:
        examples = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
        with contextlib.suppress(Exception), torch.no_grad(), recorder().recording() as activity:
            compile_fx.record_original_output_strides(graph)
            lowering = GraphLowering(graph, example_inputs=examples, is_inference=True)
            try:
                with V.set_fake_mode(detect_fake_mode(examples)), V.set_graph_handler(lowering):
                    lowering.run(*examples)
            finally:
                seen |= {rule for rule, one in activity.items() if one.changed}
    return seen
