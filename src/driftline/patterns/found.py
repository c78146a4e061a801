"""Findings of an audit: programs that a rule gets wrong, confirmed in the way a user would run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from driftline.checking.checker import TargetResult
from driftline.core.case import Case
from driftline.core.rule import Rule
from driftline.oracle.judge import Reference


@dataclass(frozen=True)
class Told:
    """A finding as plain values, which can be stored and shown after the process that found it has ended."""

    rule: Mapping[str, str]  # id, name, group, where
    mutation: str
    guilty: Sequence[str]
    without: str
    reachable: bool
    script: str
    target: str
    kind: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Found:
    """A confirmed failure, with the rule to blame and the change that caused it."""

    rule: Rule
    mutation: str
    case: Case
    result: TargetResult
    reference: Reference
    script: str = ""
    guilty: tuple[str, ...] = ()  # rules (by id) without which it does not happen; empty: that was not shown
    without: str = ""  # the target without them, on which the program passes
    reachable: bool = True  # ordinary code can write this program

    def about(self) -> dict[str, Any]:
        """Return what the store keeps with the verdict."""
        rule = self.rule
        return {
            "rule": {"id": rule.id, "name": rule.name, "group": rule.group, "where": rule.where},
            "mutation": self.mutation,
            "guilty": list(self.guilty),
            "without": self.without,
            "reachable": self.reachable,
            "script": self.script,
        }

    def told(self) -> Told:
        """Return the finding as plain values."""
        verdict = self.result.verdict
        return Told(**self.about(), target=str(self.result.target), kind=str(verdict.kind), reason=verdict.reason)
