"""The question of a reduction: target, failure, number of runs, time limit, and inputs at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from driftline.backends import BACKENDS
from driftline.core.case import Case
from driftline.core.target import Target
from driftline.core.verdict import Kind
from driftline.diagnose.reduce.signature import Signature
from driftline.programs.convert import accepts_directly

PATIENCE = 60.0  # seconds for a candidate, where the case allows more
PATIENCE_FOR_HANGS = 20.0  # where it is a hang that is looked for
INPUTS = 64  # of one program, in one question
MISSED = 0.02  # how often a flaky failure may be missed
MOST_VOTES = 30


@dataclass(frozen=True)
class Votes:
    """`needed` failures in at most `runs` runs count as failing."""

    needed: int = 1
    runs: int = 1

    @staticmethod
    def for_rate(failed: int, runs: int) -> Votes:
        """Return enough runs to see a failure of this rate almost certainly."""
        if not 0 < failed < runs:
            return ONCE
        return Votes(1, min(MOST_VOTES, math.ceil(math.log(MISSED) / math.log(1 - failed / runs))))


ONCE = Votes()


@dataclass(frozen=True)
class CandidateQuestion:
    """The question about every candidate: the target, the expected failure, and the case that candidates are variations
    of.
    """

    case: Case
    target: Target
    signature: Signature
    votes: Votes = ONCE

    @property
    def timeout(self) -> float:
        most = PATIENCE_FOR_HANGS if self.signature.kind == Kind.TIMEOUT else PATIENCE
        return min(self.case.options.timeout, most)

    @property
    def written_form(self) -> str:
        return "onnx" if self.case.program.framework == "onnx" else "source"

    @property
    def screened(self) -> bool:
        """True if candidates can be tested in batches."""
        options = self.case.options
        backend = BACKENDS.get(self.target.backend)
        return (
            self.votes.runs == 1
            and not options.signed_zero
            and options.oracle == "shadow"
            and self.signature.kind != Kind.MISSING_ERROR
            and accepts_directly(self.written_form, self.case.program.framework, backend.accepts)
        )

    @property
    def inputs(self) -> int:
        """The number of inputs of one program in one question. It is more than one only if each input is judged by its
        own numbers: an error message or a crash does not say which input caused it, and bias may come from all of them
        together.
        """
        alone = not self.screened or not self.signature.numbers_matter or self.signature.kind == Kind.BIAS
        return 1 if alone else INPUTS
