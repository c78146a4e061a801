"""The identity of a schedule bug: stage, kind, smallest failing sequence of primitives, kind of function."""

from __future__ import annotations

import re
from dataclasses import dataclass

from driftline.core.sentences import describe
from driftline.core.verdict import Fingerprint, Kind
from driftline.schedules.functions import function_of
from driftline.schedules.requests import Performed
from driftline.schedules.target import is_unoptimised

RACE = "in some runs"
AT_O0 = "at opt-level 0"  # LLVM's optimisations hide it

# A check of TVM: the text of the check in TVM's source, then the message about the values.
_CHECK = re.compile(r"(Check failed: .*?)(?: is false| \([^()]* vs\. [^()]*\)) ?:(.*)", re.DOTALL)
_STATEMENT = re.compile(r"\b(for\b.*\bin\b|with T\.|if\b).*:\s*$", re.DOTALL)  # a printed statement with its body
_INSIDE = re.compile(r"\([^()]*\)|\[[^][]*\]|PrimFunc \S+")
_WORD = re.compile(r"[A-Za-z]{3,}")


def bare(message: str) -> str:
    """Return a message without what differs between functions (printed code, variable names, numbers), so that one
    cause has one name."""
    found = _CHECK.match(message)
    check, told = found.groups() if found else ("", message)
    told = _STATEMENT.sub("", told)
    while (shorter := _INSIDE.sub(" ", told)) != told:
        told = shorter
    words = [word for part in told.split() if _WORD.fullmatch(word := part.strip(".,:;!'\"`"))]
    return " ".join((check, *words)).strip() or message


@dataclass(frozen=True)
class FailureLike:
    """What a smaller trace must have in common with the original failure."""

    kind: str
    stage: str
    what: str  # the exception, or the signal
    message: str
    primitive: str  # the primitive that raised, or ended the process
    passes: tuple[str, ...] | None = None

    @staticmethod
    def of(found: Performed) -> FailureLike:
        scheduling = found.stage == "SCHEDULE"
        primitive = found.trace.primitives[-1] if scheduling and found.trace.steps else ""
        evidence = found.evidence
        message = bare(evidence.message) if found.kind == Kind.ERROR else ""
        return FailureLike(
            found.kind, found.stage, evidence.exception or evidence.signal, message, primitive, found.trace.passes
        )

    @property
    def telling(self) -> bool:
        """True if this is enough to recognise a known bug: a primitive raised, or ended the process. A wrong number is
        not enough, nor a compile error, since many primitives can leave a variable undefined."""
        return bool(self.primitive and (self.message or self.kind == Kind.CRASH))


def is_race(found: Performed) -> bool:
    return 0 < found.wrong_runs < found.runs


def fingerprint(found: Performed) -> Fingerprint:
    like = FailureLike.of(found)
    steps = " > ".join(found.trace.primitives) or "no step"
    detail = f"{steps} of {function_of(found.trace).kind}"
    if is_race(found):
        detail += f" {RACE}"
    if is_unoptimised(found.trace.target):
        detail += f" {AT_O0}"
    if found.trace.passes:
        detail += f" by pass {'+'.join(found.trace.passes)}"
    return Fingerprint("tvm", found.stage, found.kind, f"{like.what} in {detail}" if like.what else detail)


def sentence(found: Performed) -> str:
    """Describe a failure in a sentence."""
    told = describe(Kind(found.kind), found.evidence)
    if is_race(found):
        told += f" ({found.wrong_runs} of {found.runs} runs)"
    if is_unoptimised(found.trace.target):
        told += " (without LLVM's optimisations)"
    alone = f", by the pass {' and '.join(found.trace.passes)}" if found.trace.passes else ""
    return f"{found.trace.function} after {', '.join(found.trace.primitives) or 'no step'}{alone}: {told}"
