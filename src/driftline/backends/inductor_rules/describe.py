"""Describes rules by id: their kind, their name, and where they are defined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from driftline.backends.inductor_rules.registry import registered
from driftline.core.rule import DECOMPOSITION, FUSION, LOWERING, NO_OP, PASS

_KINDS = {FUSION: "fusion", NO_OP: "no-op removal", PASS: "pass", DECOMPOSITION: "decomposition", LOWERING: "lowering"}
RULE = "rewrite rule"


@dataclass(frozen=True)
class DescribedRule:
    id: str
    kind: str
    label: str = ""
    about: str = ""


def described(ids: Iterable[str]) -> list[DescribedRule]:
    """Return the descriptions of rules, in the order of `ids`."""
    rules = {each.rule.id: each.rule for each in registered()}
    found = []
    for name in ids:
        rule = rules.get(name)
        kind = _KINDS.get(name.partition("/")[0], RULE)
        label, about = (rule.name, f"{rule.group}, {rule.where}") if rule else ("", "")
        found.append(DescribedRule(name, kind, label, about))
    return found
