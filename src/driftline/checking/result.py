"""The results of a check and of a replay, which all renderers use."""

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
    """The findings of a check, and the store that keeps them."""

    outcome: CheckOutcome
    bugs: dict[Target, Bug]
    store: Path
    notes: tuple[str, ...] = ()  # sentences about the whole check
    disagreements: tuple[Disagreement, ...] = ()  # between targets, where the specification allows both
    pairwise: Pairwise | None = None  # all targets compared with each other, if requested
    across: tuple[Pairwise, ...] = ()  # for each compiler, its instruction sets compared with each other

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
        """True if any target was judged. Otherwise nothing is known, which differs from no failures."""
        judged = (Judgement.PASS, Judgement.FAIL, Judgement.REDUCED)
        return any(row.verdict.judgement in judged for row in self.results)

    @property
    def internal_error(self) -> str:
        return next((r.internal_error for r in self.results if r.internal_error), "")


class ReplayAnswer(StrEnum):
    """The answer of a replay."""

    STILL_FAILS = "still fails"
    FIXED = "fixed"
    PASSES = "passes"  # on another target than that of the bug, which does not prove a fix
    DIFFERS = "differs"


class Standing(StrEnum):
    """The state of a bug in a round of `driftline watch`, compared with the round before."""

    NEW = "new"
    BACK = "back"
    FIXED = "fixed"
    STILL_FAILS = "still fails"
    STILL_FIXED = "still fixed"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Replay:
    """The result of replaying a bug."""

    bug: Bug
    answer: ReplayAnswer
    reason: str
    result: TargetResult

    @property
    def target(self) -> str:
        return str(self.result.target)

    def __repr__(self) -> str:
        return f"<Replay {self.bug.id} on {self.target}: {self.answer}: {first_line(self.reason, 120)}>"
