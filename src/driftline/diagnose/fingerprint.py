"""Which bug is this? Grouping by cause as far as it is known, never by addresses, shapes or numbers."""

from __future__ import annotations

import re
from dataclasses import replace

from driftline.core.execution import Execution, Stage
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.text import normalise_message
from driftline.core.verdict import Fingerprint, Kind, Verdict
from driftline.diagnose.known import known_issue

_MESSAGE_KINDS = (Kind.ERROR, Kind.CRASH, Kind.OOM, Kind.TIMEOUT)


def fingerprint(
    program: Program, target: Target, execution: Execution, verdict: Verdict, blame: str = ""
) -> Fingerprint:
    """The identity of a failure. `blame` names a converter when it, not the backend, is at fault."""
    assert verdict.kind is not None
    converter = execution.converter if execution.stage is Stage.CONVERT else ""
    backend = blame or converter or target.backend
    stage = Stage.CONVERT if blame else execution.stage
    detail = operators(program)
    if verdict.kind in _MESSAGE_KINDS and execution.failure:
        message = str(execution.failure)
        # A crash says little about its cause; an error message says enough to be recognised in other programs.
        if verdict.kind is Kind.ERROR:
            return message_fingerprint(backend, str(stage), str(verdict.kind), message)
        detail = f"{normalise_message(message)} in {detail}"
    # A drift and a wrong element are one thing seen on different inputs.
    kind = Kind.WRONG_VALUE if verdict.kind is Kind.BIAS else verdict.kind
    return _by_cause(Fingerprint(backend, str(stage), str(kind), detail), verdict.reason)


def message_fingerprint(backend: str, stage: str, kind: str, message: str) -> Fingerprint:
    """The identity of an error, which its message tells."""
    return _by_cause(Fingerprint(backend, stage, kind, normalise_message(message)), message)


def _by_cause(found: Fingerprint, reason: str) -> Fingerprint:
    """Where the cause is known, the bug goes by it: one narrowing of integers shows in every operator."""
    wider = _of_any_width(found)
    for one in (found, wider):
        known = known_issue(one, reason)
        if known:
            return replace(one, stage=known.stage or one.stage, kind=known.kind, detail=known.cause)
    return wider


def _of_any_width(found: Fingerprint) -> Fingerprint:
    """How a NaN is lost, or a process dies, is hardly ever about the width of the numbers; a wrong value often is."""
    if found.kind not in (Kind.WRONG_NONFINITE, Kind.CRASH):
        return found
    detail = re.sub(r"\bb?float(16|64)\b", "float", found.detail)
    return replace(found, detail=re.sub(r"\bu?int(8|16|32|64)\b", "int", detail))


def operators(program: Program) -> str:
    """The distinct operators when they are known, else the program itself."""
    names = sorted(set(program.operators))
    return "+".join(names) if 0 < len(names) <= 8 else f"program {program.digest[:12]}"
