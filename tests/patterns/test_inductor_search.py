"""Replacement rules of Inductor as programs of a user, from their own search functions."""

from __future__ import annotations

from collections import Counter

import pytest

from driftline.backends.inductor_rules.registry import Registered, registered
from driftline.patterns.inductor.pipeline import run_passes
from driftline.patterns.inductor.search import draft_of


@pytest.fixture(scope="module")
def replacements() -> dict[str, Registered]:
    return {each.rule.name: each for each in registered() if each.search}


def test_calls_stay_as_people_write_them(replacements: dict[str, Registered]) -> None:
    draft = draft_of(replacements["_sfdp_pattern_1_inference"])
    text = draft.text()
    assert "transpose = key.transpose(-2, -1)" in text
    assert "softmax = div.softmax(dim=-1)" in text
    assert "div = matmul.div(2.0)" in text, "the scale is a number, as the rule asks"
    assert "torch.ops" not in text
    assert all("val" in node.meta for node in draft.graph.nodes if node.op != "output")


def test_what_only_attention_is_made_of_is_written_as_attention(replacements: dict[str, Registered]) -> None:
    text = draft_of(replacements["_sfdp_pattern_30_inference"]).text()
    assert "F.scaled_dot_product_attention(" in text
    assert "torch.ops" not in text


def test_masks_are_held_when_training_so_that_no_gradient_goes_into_them(replacements: dict[str, Registered]) -> None:
    draft = draft_of(replacements["_sfdp_pattern_5_training"])
    assert draft.training
    assert set(draft.inputs) == {"query", "key", "value"} and set(draft.owned) == {"attn_mask"}


def test_a_rule_without_a_search_function_is_refused() -> None:
    rule = next(each for each in registered() if each.search is None)
    with pytest.raises(ValueError, match="search function"):
        draft_of(rule)


@pytest.mark.parametrize(
    "name",
    [
        "_sfdp_pattern_1_inference",
        "_sfdp_pattern_5_training",
        "_sfdp_pattern_18_half_inference",
        "_sfdp_pattern_30_bs1_inference",
        "_sfdp_pattern_24_half_inference",
    ],
)
def test_the_rule_fires_on_it(replacements: dict[str, Registered], name: str) -> None:
    draft = draft_of(replacements[name])
    passed = run_passes(draft.text(), dict(draft.needs), training=draft.training)
    assert replacements[name].rule.id in passed.fired


@pytest.mark.slow
def test_nearly_all_fire() -> None:
    """The others need a GPU, stand in the shadow of a rule with the same pattern, or fail whenever they match."""
    count: Counter[bool] = Counter()
    for each in registered():
        if each.search is None:
            continue
        for attempt in range(7):
            draft = draft_of(each, attempt)
            if each.rule.id in run_passes(draft.text(), dict(draft.needs), training=draft.training).fired:
                count[True] += 1
                break
    assert count[True] >= 110
