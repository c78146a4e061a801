"""Which bug is this? Stage, kind, the smallest sequence of primitives known to fail, and the kind of function."""

from __future__ import annotations

from dataclasses import dataclass

from driftline.core.sentences import describe
from driftline.core.verdict import Fingerprint, Kind
from driftline.schedules.functions import function_of
from driftline.schedules.requests import Performed

RACE = "in some runs"


@dataclass(frozen=True)
class FailureLike:
    """What a smaller trace must share with the one that it stands for."""

    kind: str
    stage: str
    what: str  # the exception, or the signal
    message: str
    primitive: str  # the one that raised, or ended the process

    @staticmethod
    def of(found: Performed) -> FailureLike:
        scheduling = found.stage == "SCHEDULE"
        primitive = found.trace.primitives[-1] if scheduling and found.trace.steps else ""
        evidence = found.evidence
        message = evidence.message if found.kind == Kind.ERROR else ""
        return FailureLike(found.kind, found.stage, evidence.exception or evidence.signal, message, primitive)

    @property
    def telling(self) -> bool:
        """Is it enough to recognise a bug that was met before? A message is, or what ended the process; a wrong number
        is not."""
        return bool(self.message or (self.kind == Kind.CRASH and self.primitive))


def is_race(found: Performed) -> bool:
    return 0 < found.wrong_runs < found.runs


def fingerprint(found: Performed) -> Fingerprint:
    like = FailureLike.of(found)
    steps = " > ".join(found.trace.primitives) or "no step"
    detail = f"{steps} of {function_of(found.trace).kind}"
    if is_race(found):
        detail += f" {RACE}"
    return Fingerprint("tvm", found.stage, found.kind, f"{like.what} in {detail}" if like.what else detail)


def sentence(found: Performed) -> str:
    """What is wrong, for people."""
    told = describe(Kind(found.kind), found.evidence)
    if is_race(found):
        told += f" ({found.wrong_runs} of {found.runs} runs)"
    return f"{found.trace.function} after {', '.join(found.trace.primitives) or 'no step'}: {told}"
