"""What a check and a replay tell their caller: values that every renderer understands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from driftline.checking.checker import CheckOutcome, TargetResult
from driftline.checking.disagreements import Disagreement
from driftline.checking.pairwise import Pairwise
from driftline.checking.result_html import check_html
from driftline.core.target import Target
from driftline.core.text import first_line, shortened
from driftline.core.verdict import Judgement
from driftline.store import Bug


@dataclass(frozen=True)
class CheckResult:
    """What a check found, and where it is kept."""

    outcome: CheckOutcome
    bugs: dict[Target, Bug]
    store: Path
    notes: tuple[str, ...] = ()  # sentences about the whole check
    disagreements: tuple[Disagreement, ...] = ()  # of targets with each other, where the specification is silent
    pairwise: Pairwise | None = None  # all targets against each other, where that was asked for
    across: tuple[Pairwise, ...] = ()  # of each compiler, its instruction sets against each other

    def __repr__(self) -> str:
        bugs = sorted({bug.id for bug in self.bugs.values()})
        found = f"; bugs: {shortened(bugs)}" if bugs else ""
        return repr(self.outcome).replace("CheckOutcome", "CheckResult", 1).removesuffix(">") + f"{found}>"

    def _repr_html_(self) -> str:
        """Return a table of the targets and a list of the bugs, for notebooks."""
        return check_html(self)

    @property
    def results(self) -> tuple[TargetResult, ...]:
        return self.outcome.results

    @property
    def failed(self) -> bool:
        return bool(self.bugs)

    @property
    def compared(self) -> bool:
        """Was any target judged? If not, nothing is known, which is not the same as clean."""
        judged = (Judgement.PASS, Judgement.FAIL, Judgement.REDUCED)
        return any(row.verdict.judgement in judged for row in self.results)

    @property
    def internal_error(self) -> str:
        return next((r.internal_error for r in self.results if r.internal_error), "")


class ReplayAnswer(StrEnum):
    STILL_FAILS = "still fails"
    FIXED = "fixed"
    PASSES = "passes"  # on another target than that of the bug, which says nothing of a fix
    DIFFERS = "differs"


class Standing(StrEnum):
    """What a round of `driftline watch` says of a bug, against the round before it."""

    NEW = "new"
    BACK = "back"
    FIXED = "fixed"
    STILL_FAILS = "still fails"
    STILL_FIXED = "still fixed"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Replay:
    bug: Bug
    answer: ReplayAnswer
    reason: str
    result: TargetResult

    @property
    def target(self) -> str:
        return str(self.result.target)

    def __repr__(self) -> str:
        return f"<Replay {self.bug.id} on {self.target}: {self.answer}: {first_line(self.reason, 120)}>"
