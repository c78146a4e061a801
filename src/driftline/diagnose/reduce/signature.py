"""When do two programs fail in the same way?

The fingerprint of a bug names the operators of its program, which change while it is made smaller. What must not change
is the rest: the compiler, the stage, the kind of failure, and for an error or a crash the message without its numbers.
A wrong value stays a wrong value; a mere drift does not stand for one, but a wrong value stands for a drift. The class
of evidence stays too, where it is known: a wrong finite number does not become a lost NaN or a flushed subnormal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from driftline.core.evidence import Evidence, evidence_class
from driftline.core.execution import Execution
from driftline.core.text import normalise_message
from driftline.core.verdict import Kind, Verdict

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
    evidence: str = ""  # its class; empty where that is not known, or does not matter

    @staticmethod
    def of(stage: str, kind: str, told: str, evidence: str = "") -> Signature:
        return Signature(stage, kind, normalise_message(told) if kind in _TOLD else "", evidence)

    @staticmethod
    def of_verdict(execution: Execution, verdict: Verdict) -> Signature:
        told = str(execution.failure) if execution.failure else verdict.reason
        seen = evidence_class(verdict.kind, verdict.evidence)
        return Signature.of(str(execution.stage), str(verdict.kind), told, str(seen))

    @staticmethod
    def of_finding(verdict: Mapping[str, Any], execution: Mapping[str, Any]) -> Signature:
        """The way a stored finding failed."""
        failure = execution.get("failure") or {}
        told = ": ".join(part for part in (failure.get("type", ""), failure.get("message", "")) if part)
        seen = evidence_class(verdict["kind"], verdict.get("evidence") or {})
        return Signature.of(execution["stage"], verdict["kind"], told, str(seen))

    def of_any_evidence(self) -> Signature:
        """Without the class of evidence: on another target the same bug may show in another element."""
        return replace(self, evidence="")

    @property
    def numbers_matter(self) -> bool:
        """Most likely, that is: a guess about what to try first."""
        return self.kind in _SEEN_IN_NUMBERS

    def covers(self, other: Signature) -> bool:
        """Is the other the same failure?"""
        if self.kind == Kind.BIAS and other.kind == Kind.WRONG_VALUE:
            return self._same_evidence(other)
        return self.of_any_evidence() == other.of_any_evidence() and self._same_evidence(other)

    def _same_evidence(self, other: Signature) -> bool:
        if not self.evidence or not other.evidence:
            return True
        return Evidence(self.evidence).stands_for(Evidence(other.evidence))

    def __str__(self) -> str:
        evidence = "" if self.evidence == Evidence.OTHER else self.evidence
        return " / ".join(part for part in (self.stage, self.kind, self.message, evidence) if part)
