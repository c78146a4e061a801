"""Where the unoptimised run lies far off by a few samples, more of them are played before anything is excused."""

from __future__ import annotations

import numpy as np

from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement, Kind
from driftline.oracle.judge import Reference, ReferenceSample, TargetTraits, judge
from driftline.oracle.rule import QUICK_RUNS, ShadowAnswer, judge_outputs

EXACT = np.linspace(1.0, 2.0, 50)
NATIVE = (EXACT + 1e-3).astype(np.float32)


def answer(runs: int, noise: float) -> ShadowAnswer:
    moved = noise * np.random.default_rng(0).standard_normal((runs, *EXACT.shape))
    exact = {"output": EXACT}
    return ShadowAnswer(exact, {"output": EXACT + moved}, exact, exact)


def wrong_in_one_place() -> Arrays:
    got = NATIVE.copy()
    got[7] += 0.5
    return {"output": got}


def test_what_few_runs_excuse_is_seen_in_more_of_them() -> None:
    asked = []

    def ask(runs: int, outputs: Arrays | None) -> ShadowAnswer:
        asked.append(runs)
        return answer(runs, 1e-6 if runs <= QUICK_RUNS else 1e-3)

    judged = judge_outputs(wrong_in_one_place(), {"output": NATIVE}, {"output": EXACT}, ask)
    assert len(asked) == 2
    assert judged.finding and judged.finding.kind is Kind.WRONG_VALUE and judged.finding.evidence.wrong == 1
    assert judge_outputs({"output": NATIVE}, {"output": NATIVE}, {"output": EXACT}, ask).finding is None


def test_what_stays_excused_is_not_called_ill_conditioned() -> None:
    def ask(arithmetic: str, runs: int, outputs: Arrays | None) -> ShadowAnswer:
        return answer(runs, 1e-6)

    sample = ReferenceSample(native={"output": NATIVE}, exact={"output": EXACT}, shadow=ask)
    execution = Execution("t", Outcome.OK, Stage.RUN, outputs=(wrong_in_one_place(),))
    verdict = judge(execution, Reference((sample,)), TargetTraits(calls_user_code=False, positional=False))
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert "unoptimised run itself" in verdict.reason and "ill-conditioned" not in verdict.reason


def test_a_drift_is_excused_although_the_spread_of_steps_explains_the_unoptimised_run() -> None:
    """Few runs show no more of a drift than of steps; that eager has the same drift is not looked at."""
    exact = np.concatenate([np.linspace(1.0, 2.0, 200), [100.0]])
    low, high = exact.copy(), exact.copy()
    high[-1] += 1.0  # one element has legal steps
    native = exact + 3e-5
    native[-1] = high[-1] + 0.5
    got = native.copy()
    got[-1] = exact[-1]
    noise = 1e-5 * np.random.default_rng(0).standard_normal((32, exact.size))

    def ask(runs: int, outputs: Arrays | None) -> ShadowAnswer:
        return ShadowAnswer({"o": exact}, {"o": (exact + noise)[:runs]}, {"o": low}, {"o": high})

    judged = judge_outputs({"o": got.astype(np.float32)}, {"o": native.astype(np.float32)}, {"o": exact}, ask)
    assert judged.finding is None
    assert judged.excused == exact.size
