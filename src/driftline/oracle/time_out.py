"""Judges a target that did not end within its time limit: slow, or hanging?

Being slow is no failure. A run is called hanging only where the limit leaves no other explanation: it is at least half
a minute, and the unoptimised run of the same program takes a thousandth of it. Compilers may take long for programs
that run in no time; that is for `driftline perf` to measure.
"""

from __future__ import annotations

from dataclasses import replace

from driftline.core.case import CheckOptions
from driftline.core.evidence import Evidence
from driftline.core.execution import Execution, Stage
from driftline.core.sentences import doing, ended
from driftline.core.verdict import Judgement, Kind, Verdict

HANGS = 1000.0  # times as long as the unoptimised run
PATIENCE = 30.0  # seconds that a run is given before it is called hanging, whatever the time limit of the user
SHORTEST = 0.001  # seconds: below this, the time of a run is that of starting it


def needs_patience(verdict: Verdict, execution: Execution) -> bool:
    """True for a run that seems to hang after a time limit too short to say so: the same with more time decides."""
    return verdict.kind is Kind.TIMEOUT and execution.durations.get("total", 0.0) < PATIENCE


def slow(execution: Execution, limit: float) -> Verdict:
    """The verdict on a run that did not end within `limit` seconds, and did with more time."""
    needed = execution.durations.get("total", 0.0)
    told = f"did not end within {limit:.3g} s, and took {needed:.3g} s when it was given more; raise --timeout"
    return Verdict(Judgement.INCONCLUSIVE, told)


def patient(options: CheckOptions) -> CheckOptions:
    """The options with the time that a run is given before it is called hanging."""
    return replace(options, timeout=PATIENCE)


def judge_time_out(execution: Execution, unoptimised: float) -> Verdict:
    """The verdict on a time-out. `unoptimised`: seconds that the program's own run takes; 0 where that is not known."""
    waited, stage = execution.durations.get("total", 0.0), str(execution.stage)
    beside = f"; the unoptimised run takes {max(unoptimised, SHORTEST):.2g} s" if unoptimised else ""
    if execution.stage is Stage.RUN and unoptimised and waited >= HANGS * max(unoptimised, SHORTEST):
        verdict = ended(Kind.TIMEOUT, stage, execution.failure, execution.log)
        return replace(verdict, reason=f"hangs: no answer within {waited:.3g} s while running{beside}")
    limit = f"within {waited:.3g} s" if waited else "in time"
    told = f"did not end {limit} while {doing(stage)}{beside}"
    return Verdict(Judgement.INCONCLUSIVE, told, evidence=Evidence(stage=stage, log=execution.log))
