"""Decide whether results differ by rounding only, with the judgement of `check`, in a worker that has the results.

A processor with fused multiply-add rounds once where others round twice, so few fusions keep results bit-identical
there. Comparing with a share of the largest number is only a rough test: a small number may be wrong where a large one
beside it is merely rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement
from driftline.oracle.judge import Reference, ReferenceSample, TargetTraits, judge
from driftline.oracle.rule import ShadowAnswer
from driftline.oracle.shadow.onnx.shadow import OnnxShadow
from driftline.oracle.shadow.player import Player
from driftline.patterns.survey import SurveyJob


def only_rounded(job: SurveyJob, got: Sequence[Arrays]) -> bool:
    """True if `check` would pass these results of the job's samples, on a compiler that declares IEEE arithmetic."""
    try:
        data, native = job.data(), job.expected()
        samples = tuple(_sample(data, *pair) for pair in zip(job.samples(), native, strict=True))
        execution = Execution("", Outcome.OK, Stage.RUN, outputs=tuple(got))
        verdict = judge(execution, Reference(samples), TargetTraits(calls_user_code=False, positional=False))
    except Exception:  # cannot be decided here: the difference stays a suspect, and `check` decides
        return False
    return verdict.judgement is Judgement.PASS


def _sample(data: bytes, arrays: Arrays, native: Arrays) -> ReferenceSample:
    import onnx

    player = Player(OnnxShadow(onnx.load_model_from_string(data), arrays))

    def ask(arithmetic: str, runs: int, outputs: Arrays | None) -> ShadowAnswer:
        return player.ask(runs, outputs)

    return ReferenceSample(native=native, exact=player.reference(), shadow=ask)
