"""Rules are brought to fire in the whole compiler, and those that do not have a reason that was tried."""

from __future__ import annotations

import time

import pytest
from inductor_processors import of_fusions, of_single_precision

from driftline.backends.inductor_rules.recorder import recorder
from driftline.backends.inductor_rules.registry import Registered, registered
from driftline.core.rule import Reach
from driftline.patterns.inductor.fire import fire
from driftline.patterns.inductor.pipeline import run_passes


@pytest.fixture(scope="module", autouse=True)
def _tables() -> None:
    recorder()


def _rule(name: str, at: int = 0) -> Registered:
    return [each for each in registered() if each.rule.name.endswith(name)][at]


@pytest.mark.parametrize(
    "name",
    [
        "pointless_view_pair",
        "normalize_cat_default",
        "cat_slice_cat",
        "decompose_mm",
        pytest.param("qreshape", marks=of_fusions),
        "dequant_promotion",
    ],
)
def test_fires(name: str) -> None:
    rule = _rule(name).rule
    firing = fire(rule.id, range(40))
    assert firing.reach is Reach.FIRED and not firing.reason
    again = run_passes(firing.text, dict(firing.needs), training=firing.training, run=False)
    assert rule.id in again.fired
    assert set(firing.also) == again.fired - {rule.id}


@pytest.mark.parametrize(
    ("name", "before"),
    [
        pytest.param("qlinear_binary", {"qlinear_weight_prepack", "qlinear_post_op_fusion"}, marks=of_fusions),
        pytest.param("linear_bias_pattern", {"linear"}, marks=of_single_precision),
    ],
)
def test_what_only_rules_make_is_made_on_the_way(name: str, before: set[str]) -> None:
    """The lowering of a fused quantised layer needs the packing and the fusion to fire first; a bias can be put into a
    packed layer only."""
    firing = fire(_rule(name).rule.id, range(40))
    assert firing.reach is Reach.FIRED
    names = {each.rule.name.rpartition(".")[2] for each in registered() if each.rule.id in firing.also}
    assert before <= names


def test_a_forbidden_rule_does_not_fire() -> None:
    rule = _rule("pointless_view_pair").rule
    firing = fire(rule.id, range(4))
    passed = run_passes(firing.text, dict(firing.needs), forbidden=frozenset({rule.id}), run=False)
    assert rule.id not in passed.fired


def test_the_second_of_two_equal_rules_is_shadowed() -> None:
    twin = next(each.rule for each in registered() if each.rule.id.endswith(".2"))
    firing = fire(twin.id, range(4))
    assert firing.reach is Reach.FIRED_ALONE
    assert firing.reason.startswith(f"shadowed by {twin.id.removesuffix('.2')} ")


def test_unreachable_rules_are_not_tried() -> None:
    rule = next(each.rule for each in registered() if each.rule.unreachable)
    firing = fire(rule.id, range(40))
    assert firing.reach is Reach.NONE and firing.reason == rule.unreachable


def test_the_deadline_holds() -> None:
    twin = next(each.rule for each in registered() if each.rule.id.endswith(".2"))
    assert fire(twin.id, range(40), deadline=time.monotonic()).attempt == 0
