"""What an audit finds: a program that a rule gets wrong, checked as a user would run it."""

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
    """A finding as it is kept and shown: plain values, which outlive the process that found it."""

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
    """A confirmed failure, with the rule to blame and what was changed to bring it out."""

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
        """What goes into the store beside the verdict."""
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
        verdict = self.result.verdict
        return Told(**self.about(), target=str(self.result.target), kind=str(verdict.kind), reason=verdict.reason)
