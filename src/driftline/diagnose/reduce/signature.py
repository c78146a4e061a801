"""Define when two programs fail in the same way.

The fingerprint of a bug names the operators of its program, which change during a reduction. The rest must stay the
same: the compiler, the stage, the kind of failure, and for an error or a crash the message without its numbers. A wrong
value may replace bias, but bias may not replace a wrong value. The fault must stay the same too, if known: a wrong
finite number may not become a lost NaN or a flushed subnormal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from driftline.core.evidence import Evidence, Fault
from driftline.core.execution import Execution
from driftline.core.text import normalise_message
from driftline.core.verdict import Kind, Verdict

_TOLD = (Kind.ERROR, Kind.CRASH)  # kinds with a significant message
# Kinds that show in numbers; errors, dtypes and shapes seldom depend on the values of tensors.
_SEEN_IN_NUMBERS = (
    Kind.WRONG_VALUE, Kind.BIAS, Kind.WRONG_NONFINITE, Kind.WRONG_ZERO_SIGN, Kind.WRONG_STRUCTURE,
)  # fmt: skip


@dataclass(frozen=True)
class Signature:
    """The way in which a program failed."""

    stage: str
    kind: str
    message: str = ""
    fault: Fault | None = None  # None where it is not known, or does not matter

    @staticmethod
    def of(stage: str, kind: str, found: Evidence) -> Signature:
        return Signature(stage, kind, normalise_message(found.raised) if kind in _TOLD else "", found.fault)

    @staticmethod
    def of_verdict(execution: Execution, verdict: Verdict) -> Signature:
        return Signature.of(str(execution.stage), str(verdict.kind), verdict.evidence)

    @staticmethod
    def of_finding(verdict: Mapping[str, Any], execution: Mapping[str, Any]) -> Signature:
        """Return the signature of a stored finding."""
        return Signature.of(execution["stage"], verdict["kind"], Evidence.from_json(verdict.get("evidence") or {}))

    def of_any_fault(self) -> Signature:
        """Return the signature without its fault: on another target the same bug may show in another element."""
        return replace(self, fault=None)

    @property
    def numbers_matter(self) -> bool:
        """True if the failure probably depends on the numbers in the inputs. This is a guess that decides what to try
        first.
        """
        return self.kind in _SEEN_IN_NUMBERS

    def covers(self, other: Signature) -> bool:
        """True if the other failure counts as the same failure."""
        if self.kind == Kind.BIAS and other.kind == Kind.WRONG_VALUE:
            return self._same_fault(other)
        return self.of_any_fault() == other.of_any_fault() and self._same_fault(other)

    def _same_fault(self, other: Signature) -> bool:
        return self.fault is None or other.fault is None or self.fault.stands_for(other.fault)

    def __str__(self) -> str:
        fault = "" if self.fault in (None, Fault.OTHER) else str(self.fault)
        return " / ".join(part for part in (self.stage, self.kind, self.message, fault) if part)
