"""A rewrite rule of a compiler, and how far it was brought to work. Needs no compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from driftline.core.wire import own_form

# Kinds of what rewrites graphs outside any table of rules
FUSION, NO_OP, PASS, DECOMPOSITION, LOWERING = "fusion", "no-op", "pass", "decomposition", "lowered"
# The option of a target that has one pass alone, and its value for none at all
ONE_PASS, NO_PASS = "pass", "none"


@own_form
@dataclass(frozen=True)
class Rule:
    """One rule. Its id stays the same from run to run, and from version to version while the rule does not change."""

    id: str
    compiler: str  # the backend that applies it
    group: str  # the pass or table that it stands in
    name: str  # the handler's or the rule's own name: what people look for
    kind: str  # how the compiler treats it: replacement, lowering, graph, optimiser, pass...
    where: str = ""  # file:line in the compiler's package
    check: str = ""  # the name of the condition that it imposes besides its shape
    needs: tuple[tuple[str, str], ...] = ()  # options of the target that must be set
    unreachable: str = ""  # why it cannot fire here; nothing when it can
    text: str = ""  # the whole pattern, for comparison
    dead: bool = False  # it can fire nowhere, whatever the program and the machine

    @property
    def optimisation(self) -> str:
        """Rules that differ only in what they are matched on are one optimisation."""
        return f"{self.group} {self.name}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "needs": dict(self.needs)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Rule:
        return Rule(**{**value, "needs": tuple(sorted(value["needs"].items()))})


class Reach(StrEnum):
    """How far a rule was brought, each step past the one before."""

    NONE = "none"
    BUILT = "built"  # a program with its pattern exists
    MATCHED = "matched"  # its pattern matched that program
    FIRED_ALONE = "fired_alone"  # its pass by itself changed the graph
    FIRED = "fired"  # the whole compiler ran, it was applied, and the graph really changed

    @property
    def rank(self) -> int:
        return list(Reach).index(self)
