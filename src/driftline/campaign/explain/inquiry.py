"""The questions of searches about cost bugs, whose results are right: is the program still slow, does its compile time
grow?

`driftline.perf` implements them. The searches are the same as for wrong results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from driftline.checking.checker import Checker
from driftline.core.case import Case
from driftline.core.target import Target
from driftline.diagnose.bisect import ReleaseAnswer
from driftline.diagnose.reduce.asking import Asker, CandidateWriter
from driftline.diagnose.reduce.question import CandidateQuestion
from driftline.diagnose.reduce.requests import CandidateRequest
from driftline.diagnose.trials import TargetTrials

AskRelease = Callable[[Checker, Target], tuple[ReleaseAnswer, str]]  # the release is in the target; the answer, and why


class ReleaseInquiry(Protocol):
    """Decides whether a release shows a bug."""

    def releases(self, case: Case) -> AskRelease: ...


class Inquiry(ReleaseInquiry, Protocol):
    """A question about a cost bug, in the forms that the searches need."""

    message: str  # distinguishes this question from others in the answers that a reduction stores

    def asker(
        self,
        checker: Checker,
        question: CandidateQuestion,
        writer: CandidateWriter,
        request_of: Callable[[Any], CandidateRequest],
    ) -> Asker: ...

    def trials(self, case: Case) -> TargetTrials: ...
