"""Judge a target that exceeded its time limit: is it slow, or does it hang?

Being slow is no failure. A run counts as hanging only if it has no other explanation: it waited for at least `PATIENCE`
seconds, and the unoptimised run of the same program takes at most a thousandth of that. Compilation may take long for
programs that run quickly; `driftline perf` measures that.
"""

from __future__ import annotations

from dataclasses import replace

from driftline.core.case import CheckOptions
from driftline.core.evidence import Evidence
from driftline.core.execution import Execution, Stage
from driftline.core.sentences import doing, ended
from driftline.core.verdict import Judgement, Kind, Verdict

HANGS = 1000.0  # times as long as the unoptimised run
PATIENCE = 30.0  # seconds before a run counts as hanging, whatever the user's time limit
SHORTEST = 0.001  # seconds: a shorter run mostly measures its start


def needs_patience(verdict: Verdict, execution: Execution) -> bool:
    """True for a run that seems to hang, but after less than `PATIENCE` seconds; it must run again with more time."""
    return verdict.kind is Kind.TIMEOUT and execution.durations.get("total", 0.0) < PATIENCE


def slow(execution: Execution, limit: float) -> Verdict:
    """Return the verdict on a run that exceeded `limit` seconds, but ended when it was given more time."""
    needed = execution.durations.get("total", 0.0)
    told = f"did not end within {limit:.3g} s, and took {needed:.3g} s when it was given more; raise --timeout"
    return Verdict(Judgement.INCONCLUSIVE, told)


def patient(options: CheckOptions) -> CheckOptions:
    """Return the options with the time that a run is given before it counts as hanging."""
    return replace(options, timeout=PATIENCE)


def judge_time_out(execution: Execution, unoptimised: float) -> Verdict:
    """Return the verdict on a time-out. `unoptimised`: seconds that the program's own run takes; 0 if unknown."""
    waited, stage = execution.durations.get("total", 0.0), str(execution.stage)
    beside = f"; the unoptimised run takes {max(unoptimised, SHORTEST):.2g} s" if unoptimised else ""
    if execution.stage is Stage.RUN and unoptimised and waited >= HANGS * max(unoptimised, SHORTEST):
        verdict = ended(Kind.TIMEOUT, stage, execution.failure, execution.log)
        return replace(verdict, reason=f"hangs: no answer within {waited:.3g} s while running{beside}")
    limit = f"within {waited:.3g} s" if waited else "in time"
    told = f"did not end {limit} while {doing(stage)}{beside}"
    return Verdict(Judgement.INCONCLUSIVE, told, evidence=Evidence(stage=stage, log=execution.log))
