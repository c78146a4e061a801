"""Rules that changed their names between two versions."""

from __future__ import annotations

from driftline.core.rule import Rule
from driftline.patterns.diff import Listed, difference


def rule(number: int, name: str) -> Rule:
    return Rule(f"{number:08x}", "inductor", "joint_graph.pass_patterns[0]", name, "replacement")


def test_a_variant_is_paired_with_its_own_pattern() -> None:
    """torch 2.11 calls every variant `_sfdp_pattern_1`; 2.13 adds the variant to the name."""
    old = Listed("2.11", [rule(1, "_sfdp_pattern_1"), rule(2, "_sfdp_pattern_18")])
    new = Listed("2.13", [rule(3, "_sfdp_pattern_18_inference"), rule(4, "_sfdp_pattern_1_training")])
    found = difference(old, new)
    assert [(a.name, b.name) for a, b in found.changed] == [
        ("_sfdp_pattern_18", "_sfdp_pattern_18_inference"),
        ("_sfdp_pattern_1", "_sfdp_pattern_1_training"),
    ]


def test_an_equal_name_goes_before_a_longer_one() -> None:
    old = Listed("2.11", [rule(1, "cat"), rule(2, "cat_slice")])
    new = Listed("2.13", [rule(3, "cat_slice"), rule(4, "cat_slice_cat")])
    found = difference(old, new)
    assert [(a.name, b.name) for a, b in found.changed] == [("cat_slice", "cat_slice"), ("cat", "cat_slice_cat")]
