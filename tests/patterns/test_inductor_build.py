"""Programs built from patterns: the same every time, runnable, and matched by the rule they were built for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch._inductor.pattern_matcher as pm
from inductor_processors import ARM, of_fusions, of_single_precision

from driftline.backends.inductor_rules.recorder import recorder
from driftline.backends.inductor_rules.registry import Registered, registered
from driftline.core.rule import Reach
from driftline.patterns.inductor.alone import alone
from driftline.patterns.inductor.draft import live
from driftline.patterns.inductor.invert import NotBuilt, build


@pytest.fixture(scope="module", autouse=True)
def _tables() -> None:
    recorder()


def _rules(name: str) -> list[Registered]:
    return [each for each in registered() if each.rule.name.endswith(name)]


def _first(rule: Registered, attempts: int = 40) -> int:
    """The first attempt that fires the rule by itself."""
    for attempt in range(attempts):
        try:
            draft = build(rule, attempt)
        except NotBuilt:
            continue
        if alone(rule, draft).reach is Reach.FIRED_ALONE:
            return attempt
    raise AssertionError(f"{rule.rule.name} does not fire alone in {attempts} attempts")


@pytest.mark.parametrize(
    "name", ["pointless_permute_pair", "merge_splits", "reuse_partial", "decompose_bmm", "scatter_upon_const_tensor"]
)
def test_fires_alone(name: str) -> None:
    for rule in _rules(name):
        _first(rule)


def test_the_same_every_time() -> None:
    for rule in _rules("folded_op")[:4]:
        for attempt in (0, 3):
            assert build(rule, attempt).text() == build(rule, attempt).text()


def test_attempts_differ() -> None:
    (rule,) = _rules("mm_plus_mm")
    assert len({build(rule, attempt).text() for attempt in range(8)}) > 4


def test_programs_run() -> None:
    """What is written down is a program: it gives finite numbers of the shapes that the graph promised."""
    for name in ("folded_op", "qconv_weight_prepack", "qlinear_weight_prepack", "woq_int8"):
        rule = _rules(name)[0]
        draft = build(rule, _first(rule))
        model, inputs = live(draft.text())
        with torch.no_grad():
            outputs = model(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        (promised,) = [node for node in draft.graph.nodes if node.op == "output"]
        assert [tuple(out.shape) for out in outputs] == [tuple(n.meta["val"].shape) for n in promised.args[0]]
        assert all(torch.isfinite(out.float()).all() for out in outputs)


@of_fusions
def test_operators_that_rules_make_are_lifted() -> None:
    """A fused quantised convolution comes from two rules; the program has neither's operators."""
    (rule, *_) = _rules("qconv_binary")
    draft = build(rule, 0)
    made = [next(each for each in registered() if each.rule.id == id_) for id_ in draft.producers]
    assert [each.rule.name.rpartition(".")[2] for each in made] == ["qconv", "qconv_weight_prepack"]
    text = draft.text()
    assert "onednn" not in text and "torch.ops.quantized_decomposed" in text and "F.conv2d" in text
    assert alone(rule, draft).reach is Reach.FIRED_ALONE


@of_single_precision
def test_a_packed_layer_is_lifted_in_the_dtype_that_is_packed_here() -> None:
    """The processor need not compute in bfloat16, in which layers have to be elsewhere."""
    (rule,) = _rules("reshape_linear_reshape_pattern")
    draft = build(rule, 0)
    made = [next(each for each in registered() if each.rule.id == id_) for id_ in draft.producers]
    assert [each.rule.name.rpartition(".")[2] for each in made] == ["linear"]
    text = draft.text()
    assert "mkldnn" not in text and "bfloat16" not in text and "torch.mm" in text
    assert alone(rule, draft).reach is Reach.FIRED_ALONE


def test_nodes_know_their_part_of_the_pattern() -> None:
    (rule,) = _rules("cat_slice_cat")
    draft = build(rule, 0)
    parts = [node.meta["pattern"] for node in draft.graph.nodes if "pattern" in node.meta]
    assert len(parts) == 3 and all(isinstance(part, pm._TargetExpr) for part in parts)
    assert all("val" in node.meta for node in draft.graph.nodes if node.op != "output")


@of_fusions
def test_what_no_rule_makes_is_said() -> None:
    rule = next(each for each in registered() if "qconv_pointwise.tensor" in each.rule.text)
    with pytest.raises(NotBuilt, match="made by no rule"):
        build(rule, 0)


def test_what_no_rule_makes_is_said_of_a_rule_that_torch_does_not_have() -> None:
    (rule,) = _rules("cat_slice_cat")
    unmade = pm.CallFunction(torch.ops.onednn.qconv_pointwise.tensor, pm.Arg())
    with pytest.raises(NotBuilt, match=r"onednn\.qconv_pointwise\.tensor is made by no rule"):
        build(replace(rule, entry=replace(rule.entry, pattern=unmade)), 0)


def test_rules_out_of_reach_have_their_reason() -> None:
    rules = [each.rule for each in registered()]
    # The virtual operations, pools with a wrong number of arguments, ...: all but three are fusions or their lowerings.
    dead, alive = (3, 280) if ARM else (14, 480)
    assert sum(rule.dead for rule in rules) >= dead
    assert all(rule.unreachable for rule in rules if rule.dead)
    assert sum(not rule.unreachable for rule in rules) > alive
