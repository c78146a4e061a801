"""Store failing scripts as bugs: a case whose program is the text of the script, without input samples."""

from __future__ import annotations

import contextlib
import hashlib
import re
import tempfile
from pathlib import Path
from typing import Any

from driftline.backends import BACKENDS
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.evidence import Evidence
from driftline.core.execution import Execution, Failure, Outcome
from driftline.core.program import SCRIPT, Program
from driftline.core.target import Target
from driftline.core.titles import KEY, TitleFacts
from driftline.core.verdict import Kind, Status
from driftline.execute.pool import Pool
from driftline.execute.processors import free_memory
from driftline.scenarios.identity import (
    evidence_of,
    fingerprint,
    kind_of,
    operators_of_script,
    stage_of,
    title_of_difference,
)
from driftline.scenarios.judge import ScriptResult
from driftline.scenarios.runs import ScriptOptions
from driftline.scenarios.script import UserScript, read_script
from driftline.store import Bug, Store

_FILE = re.compile(r"\w[\w.-]{0,100}\.py", re.ASCII)
DIFFERENCES = "differences"  # in the verdict of a stored finding
_OUTCOMES = {Kind.ERROR: Outcome.ERROR, Kind.CRASH: Outcome.CRASH}


def record(store: Store, result: ScriptResult, options: ScriptOptions) -> Bug:
    """Store a failing result, and return its bug."""
    script, first = result.script, result.differences[0]
    target = Target.parse(result.target)
    evidence = evidence_of(first)
    kept = CheckOptions(seed=options.seed, timeout=options.timeout, memory_limit=options.memory_limit)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_bytes(script.text.encode())
        return store.add_finding(
            fingerprint(result),
            Case(_program(script, path), (), (target,), kept),
            target,
            summary=result.reason,
            status=Status.NEW,
            verdict={
                "verdict": str(result.judgement),
                "kind": str(kind_of(first)),
                "reason": result.reason,
                "evidence": evidence.to_json(),
                "failed_runs": [1, 1],
                "blame": "",
                KEY: TitleFacts(sentence=title_of_difference(first)).to_json(),
                DIFFERENCES: [one.to_json() for one in result.differences],
                "backends": list(result.backends),
            },
            execution=_execution(result, target, evidence),
        )


def is_script_bug(store: Store, bug: Bug) -> bool:
    """True if the bug was found in a script that calls the compiler itself."""
    return store.load_case(bug.findings[0].case_id).program.form == SCRIPT


def script_of(case: Case, pool: Pool) -> UserScript:
    """Return the script of a stored case: the user's file if its text is unchanged, so that modules next to it are
    found, else a copy."""
    if case.program.form != SCRIPT:
        raise DriftlineError(f"{case.program.name} is no script that calls torch.compile; use driftline replay.")
    text, own = case.program.path.read_bytes(), Path(case.program.origin)
    with contextlib.suppress(OSError, DriftlineError):
        if own.is_file() and own.stat().st_size == len(text) and own.read_bytes() == text:
            return read_script(own)
    copy = pool.workspace.job_folder() / (case.program.name if _FILE.fullmatch(case.program.name) else "script.py")
    copy.write_bytes(text)
    return read_script(copy)


def options_of(case: Case) -> ScriptOptions:
    """Return the options for executing a stored script, with no more memory than the machine has."""
    kept = case.options
    memory = min(kept.memory_limit, max(free_memory(), CheckOptions().memory_limit))
    return ScriptOptions(kept.timeout, memory, kept.seed)


def torch_release(target: Target) -> str:
    """Return the release of torch that runs a script on a target."""
    return target.version or BACKENDS.get("inductor").version()


def _program(script: UserScript, path: Path) -> Program:
    return Program(
        form=SCRIPT,
        framework="torch",
        digest=hashlib.sha256(script.text.encode()).hexdigest(),
        path=path,
        name=script.name,
        operators=operators_of_script(script),
        origin=str(script.path),
    )


def _execution(result: ScriptResult, target: Target, evidence: Evidence) -> dict[str, Any]:
    first = result.differences[0]
    ended = evidence.exception or evidence.signal
    told = Execution(
        str(target),
        _OUTCOMES.get(kind_of(first), Outcome.OK),
        stage_of(first),
        failure=Failure(ended, evidence.said) if ended else None,
        durations=result.seconds,
        version=torch_release(target),
    )
    return {**told.summary(), "log": ""}
