"""Stores failing schedules as bugs: a case whose program is the trace, with a script that shows the failure."""

from __future__ import annotations

import tempfile
from pathlib import Path

from driftline.backends import BACKENDS
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.execution import Execution, Failure, Outcome, Stage
from driftline.core.program import SCHEDULE, Program
from driftline.core.rule import NO_PASS, ONE_PASS
from driftline.core.target import Target
from driftline.core.titles import ARROW, KEY, TitleFacts
from driftline.core.verdict import Judgement, Kind, Status
from driftline.schedules.asking import TVM
from driftline.schedules.functions import function_of
from driftline.schedules.naming import fingerprint, is_race, sentence
from driftline.schedules.requests import Performed
from driftline.schedules.script import script_of
from driftline.schedules.trace import Trace, read_trace
from driftline.store import Bug, Store

_OUTCOMES = {
    Kind.ERROR: Outcome.ERROR,
    Kind.CRASH: Outcome.CRASH,
    Kind.TIMEOUT: Outcome.TIMEOUT,
    Kind.OOM: Outcome.OOM,
}


def record(store: Store, found: Performed, origin: Trace, asked: int) -> Bug:
    """Store a failure. `origin` is the trace as it was drawn, before `asked` smaller ones were tried."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(found.trace.dump())
        target = target_of(found.trace)
        case = Case(_program(found.trace, path), (), (target,), CheckOptions(seed=found.trace.seed))
        return store.add_finding(
            fingerprint(found),
            case,
            target,
            summary=sentence(found),
            status=Status.FLAKY if is_race(found) else Status.NEW,
            verdict={
                "verdict": str(Judgement.FAIL),
                "kind": found.kind,
                "reason": sentence(found),
                "evidence": found.evidence.to_json(),
                "failed_runs": [found.wrong_runs, found.runs] if found.runs else [1, 1],
                "blame": "",
                KEY: TitleFacts(subject=_subject(found.trace)).to_json(),
                "script": script_of(found.trace, kind=found.kind, stage=found.stage, about=_about(found)),
                "schedule": {"drawn": origin.to_json(), "asked": asked},
            },
            execution=_execution(found),
            keep=True,
        )


def target_of(trace: Trace) -> Target:
    """Return the TVM target of a trace, with the option for single passes if the trace has passes of its own."""
    if trace.passes is None:
        return TVM
    return Target("tvm", None, ((ONE_PASS, "+".join(trace.passes) or NO_PASS),))


def trace_of(case: Case) -> Trace:
    """Return the trace of a stored case; raises if the case is no schedule."""
    if case.program.form != SCHEDULE:
        raise DriftlineError(f"{case.program.name} is no schedule; run it with driftline replay.")
    return read_trace(case.program.path.read_bytes())


def note_replay(store: Store, bug: Bug, found: Performed) -> None:
    """Update a bug's status after a replay: fixed if it passes now, confirmed if it fails as before."""
    if not found.fails:
        store.mark(bug.id, Status.FIXED)
    elif fingerprint(found) == bug.fingerprint and bug.status in (Status.NEW, Status.FIXED):
        store.mark(bug.id, Status.CONFIRMED)


def _program(trace: Trace, path: Path) -> Program:
    name = f"{trace.function}({', '.join(f'{size}={value}' for size, value in trace.sizes.items())})"
    return Program(
        form=SCHEDULE,
        framework="tvm",
        digest=trace.digest,
        path=path,
        name=name,
        outputs=function_of(trace).outputs,
        operators=trace.primitives,
        pattern=_subject(trace),
    )


def _subject(trace: Trace) -> str:
    """Return the subject of a title: `matmul after split → fuse`."""
    return f"{trace.function} after {ARROW.join(trace.primitives) or 'no step'}"


def _about(found: Performed) -> str:
    return f"apache-tvm {BACKENDS.get('tvm').version()}: {sentence(found)}"


def _execution(found: Performed) -> dict[str, object]:
    evidence = found.evidence
    ended = evidence.exception or evidence.signal
    told = Execution(
        str(target_of(found.trace)),
        _OUTCOMES.get(Kind(found.kind), Outcome.OK),
        Stage(found.stage),
        failure=Failure(ended, evidence.said) if ended else None,
        version=BACKENDS.get("tvm").version(),
    )
    return {**told.summary(), "log": evidence.log}
