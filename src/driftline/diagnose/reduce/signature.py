"""When do two programs fail in the same way?

The fingerprint of a bug names the operators of its program, which change while it is made smaller. What must not change
is the rest: the compiler, the stage, the kind of failure, and for an error or a crash the message without its numbers.
A wrong value stays a wrong value; a mere drift does not stand for one, but a wrong value stands for a drift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftline.core.text import normalise_message
from driftline.core.verdict import Kind

_TOLD = (Kind.ERROR, Kind.CRASH)  # kinds whose message tells what happened
# Kinds that show in numbers; errors, dtypes and shapes seldom depend on what tensors hold.
_SEEN_IN_NUMBERS = (
    Kind.WRONG_VALUE, Kind.BIAS, Kind.WRONG_NONFINITE, Kind.WRONG_ZERO_SIGN, Kind.WRONG_STRUCTURE,
)  # fmt: skip


@dataclass(frozen=True)
class Signature:
    """How something failed."""

    stage: str
    kind: str
    message: str = ""

    @staticmethod
    def of(stage: str, kind: str, told: str) -> Signature:
        return Signature(stage, kind, normalise_message(told) if kind in _TOLD else "")

    @staticmethod
    def of_finding(verdict: Mapping[str, Any], execution: Mapping[str, Any]) -> Signature:
        """The way a stored finding failed."""
        failure = execution.get("failure") or {}
        told = ": ".join(part for part in (failure.get("type", ""), failure.get("message", "")) if part)
        return Signature.of(execution["stage"], verdict["kind"], told)

    @property
    def numbers_matter(self) -> bool:
        """Most likely, that is: a guess about what to try first."""
        return self.kind in _SEEN_IN_NUMBERS

    def covers(self, other: Signature) -> bool:
        """Is the other the same failure?"""
        if self.kind == Kind.BIAS and other.kind == Kind.WRONG_VALUE:
            return True
        return self == other

    def __str__(self) -> str:
        return " / ".join(part for part in (self.stage, self.kind, self.message) if part)
