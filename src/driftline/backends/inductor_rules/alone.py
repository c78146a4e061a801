"""Inductor's passes over graphs, one at a time: the rules to forbid so that a single pass runs alone.

A pass here is a pass that Inductor names where it runs it, a fusion of groups, or a table of rewrite rules with all its
rules. Decompositions, lowerings and the passes that make a graph compilable always run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from driftline.backends.base import CompilerPass, Options
from driftline.backends.inductor_rules.outside import outside_rules
from driftline.backends.inductor_rules.registry import registered
from driftline.core.rule import FUSION, NO_OP, NO_PASS, PASS

_LOWERING = ("decompose_", "fix_auto_functionalized", "stable_sort")  # passes without which some graphs do not compile
_RANDOM = "replace_random"  # its table makes other random numbers, by design
_NO_OPS, _FUSING = "remove_noop_ops", "group_batch_fusion_passes"


@dataclass(frozen=True)
class GraphPass:
    """One pass: `rules` are the ids of its rules; `needs` are the options without which Inductor does not run it."""

    name: str
    group: str
    rules: frozenset[str]
    needs: tuple[tuple[str, str], ...] = ()
    untried: str = ""


@cache
def graph_passes() -> Mapping[str, GraphPass]:
    """Return all passes that a user's program can trigger, by name."""
    outside = outside_rules()
    removals = frozenset(rule.id for rule in outside if rule.kind == NO_OP)
    found = {}
    for rule in outside:
        if rule.kind == PASS and rule.name != _FUSING:
            lowers = rule.name.startswith(_LOWERING)
            untried = "some graphs do not compile without it" if lowers else rule.unreachable
            more = removals if rule.name == _NO_OPS else frozenset()
            found[rule.name] = GraphPass(rule.name, rule.group, more | {rule.id}, rule.needs, untried)
        elif rule.kind == FUSION:
            ids = frozenset((rule.id, f"{PASS}/{_FUSING}"))
            found[rule.name] = GraphPass(rule.name, rule.group, ids, rule.needs, rule.unreachable)
    return found | _tables()


def _tables() -> dict[str, GraphPass]:
    groups: dict[str, list[tuple[str, tuple[tuple[str, str], ...], bool]]] = {}
    for each in registered():
        rule = each.rule
        groups.setdefault(_plain(rule.group), []).append((rule.id, tuple(rule.needs), bool(rule.unreachable)))
    found = {}
    for group, rules in groups.items():
        common = set.intersection(*(set(needs) for _, needs, _ in rules))
        untried = "none of its rules can fire here" if all(out for *_, out in rules) else ""
        untried = "draws other random numbers by design" if group.startswith(_RANDOM) else untried
        ids = frozenset(name for name, *_ in rules)
        found[group] = GraphPass(group, "pattern tables", ids, tuple(sorted(common)), untried)
    return {name: replace(one, rules=one.rules | _before(one, found)) for name, one in found.items()}


def _before(one: GraphPass, tables: Mapping[str, GraphPass]) -> frozenset[str]:
    """Return the rules of the tables that must run before a pass, such as a normalisation."""
    first = dict(one.needs).get("fusions", "").split("+")[:-1]
    return frozenset(rule for name in first for table in tables if table.endswith(name) for rule in tables[table].rules)


def _plain(group: str) -> str:
    """Return the name of a table without characters that have a meaning in a target: `post_grad.pass_patterns[0]` ends
    in `.0`."""
    return re.sub(r"\W+", ".", group).strip(".")


def listed() -> list[CompilerPass]:
    return [CompilerPass(one.name, one.group, one.untried) for one in graph_passes().values()]


def needed_options(name: str) -> Options:
    return dict(graph_passes()[name].needs) if name != NO_PASS else {}


def all_needed() -> dict[str, str]:
    """Return options with which as many passes as possible run on one program."""
    wanted = [dict(one.needs).get("fusions", "") for one in graph_passes().values() if not one.untried]
    return {"fusions": "+".join(dict.fromkeys(name for names in wanted for name in names.split("+") if name))}


def forbidden_beside(name: str) -> frozenset[str]:
    """Return the rules to forbid so that only this pass (or none) has any effect."""
    every = frozenset().union(*(one.rules for one in graph_passes().values() if not one.untried))
    return every - (graph_passes()[name].rules if name != NO_PASS else frozenset())
