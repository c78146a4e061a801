"""What the searches ask of a bug whose results are right: is it still slow, does its compile time still grow?

`driftline.perf` has the answers. The searches are those of wrong results.
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

AskRelease = Callable[[Checker, Target], tuple[ReleaseAnswer, str]]  # the release is in the target; and why


class ReleaseInquiry(Protocol):
    """What a search among releases asks."""

    def releases(self, case: Case) -> AskRelease: ...


class Inquiry(ReleaseInquiry, Protocol):
    """One question in the forms that the searches need."""

    message: str  # tells the question from others, for what a reduction remembers

    def asker(
        self,
        checker: Checker,
        question: CandidateQuestion,
        writer: CandidateWriter,
        request_of: Callable[[Any], CandidateRequest],
    ) -> Asker: ...

    def trials(self, case: Case) -> TargetTrials: ...
