"""Which bug is this? Grouping by cause as far as it is known, never by addresses, shapes or numbers."""

from __future__ import annotations

from driftline.core.execution import Execution, Stage
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.text import normalise_message
from driftline.core.verdict import Fingerprint, Kind, Verdict

_MESSAGE_KINDS = (Kind.ERROR, Kind.CRASH, Kind.OOM, Kind.TIMEOUT)


def fingerprint(
    program: Program, target: Target, execution: Execution, verdict: Verdict, blame: str = ""
) -> Fingerprint:
    """The identity of a failure. `blame` names a converter when it, not the backend, is at fault."""
    assert verdict.kind is not None
    backend = blame or (execution.converter if execution.stage is Stage.CONVERT else target.backend)
    stage = Stage.CONVERT if blame else execution.stage
    detail = operators(program)
    if verdict.kind in _MESSAGE_KINDS and execution.failure:
        message = normalise_message(f"{execution.failure.type}: {execution.failure.message}")
        # A crash says little about its cause; an error message says enough to be recognised in other programs.
        detail = message if verdict.kind is Kind.ERROR else f"{message} in {detail}"
    return Fingerprint(backend, str(stage), str(verdict.kind), detail)


def operators(program: Program) -> str:
    """The distinct operators when they are known, else the program itself."""
    names = sorted(set(program.operators))
    return "+".join(names) if 0 < len(names) <= 8 else f"program {program.digest[:12]}"
