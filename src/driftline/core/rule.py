"""A rewrite rule of a compiler, and how far it was reached. Needs no compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from driftline.core.wire import own_form

# Kinds of rewrites that are in no table of rules
FUSION, NO_OP, PASS, DECOMPOSITION, LOWERING = "fusion", "no-op", "pass", "decomposition", "lowered"
# The option of a target that selects a single pass, and its value for no pass at all
ONE_PASS, NO_PASS = "pass", "none"


@own_form
@dataclass(frozen=True)
class Rule:
    """One rule. Its id is the same in every run, and in every version while the rule does not change."""

    id: str
    compiler: str  # the backend that applies it
    group: str  # the pass or table that contains it
    name: str  # the name of the handler or of the rule, for which people search
    kind: str  # how the compiler treats it: replacement, lowering, graph, optimiser, pass...
    where: str = ""  # file:line in the compiler's package
    check: str = ""  # the name of an extra condition, besides the shape of the pattern
    needs: tuple[tuple[str, str], ...] = ()  # options of the target that it needs
    unreachable: str = ""  # why it cannot fire here; empty if it can
    text: str = ""  # the whole pattern, for comparison
    dead: bool = False  # it can never fire, whatever the program and the machine

    @property
    def optimisation(self) -> str:
        """The name of the optimisation: rules that differ only in their pattern share it."""
        return f"{self.group} {self.name}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "needs": dict(self.needs)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Rule:
        return Rule(**{**value, "needs": tuple(sorted(value["needs"].items()))})


class Reach(StrEnum):
    """How far a rule was reached; each value includes those before."""

    NONE = "none"
    BUILT = "built"  # a program with its pattern exists
    MATCHED = "matched"  # its pattern matched that program
    FIRED_ALONE = "fired_alone"  # its pass, run alone, changed the graph
    FIRED = "fired"  # it was applied in the whole compiler and changed the graph

    @property
    def rank(self) -> int:
        return list(Reach).index(self)
