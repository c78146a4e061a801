"""Localise a failure: climb the ladder, take the program apart, and find the operators that fail alone.

An operator is not suspected because a number first differs there in the whole program, since looking at every value
changes what is fused. Each suspect is a program of its own, fed with the values of the reference run, that fails the
ordinary check; the program without the suspect is tested as well.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from driftline.checking.checker import Checker
from driftline.core.announce import Announce
from driftline.core.case import Case
from driftline.core.verdict import Judgement, Kind
from driftline.diagnose.localize.alone import KINDS, SHARE, lone_operator
from driftline.diagnose.localize.apart import Apart, NotApart, forms_apart, take_apart
from driftline.diagnose.localize.ladder import climb
from driftline.diagnose.localize.narrow import narrow
from driftline.diagnose.localize.result import Localization, PlacedOperator, SuspectPart
from driftline.diagnose.reduce.order import ProgramSize
from driftline.diagnose.reduce.question import ONCE, CandidateQuestion, Votes
from driftline.diagnose.reduce.reducer import DoesNotFail
from driftline.diagnose.reduce.search import BudgetEnded, CandidateAnswer
from driftline.diagnose.reduce.signature import Signature
from driftline.diagnose.trials import Trials
from driftline.execute.pool import PoolExpired

MOST_SUSPECTS = 3
MOST_TAPPED = 400  # operators of a program that is also run with every value as an output
_WRONG = (Kind.WRONG_VALUE, Kind.WRONG_NONFINITE, Kind.WRONG_DTYPE, Kind.WRONG_SHAPE, Kind.WRONG_ZERO_SIGN)


@dataclass(frozen=True)
class WrongResult(Signature):
    """A signature for which any wrong result stands for another: a wrong number in the middle may become a NaN at the
    end.
    """

    def covers(self, other: Signature) -> bool:
        if self.kind in _WRONG and other.kind in _WRONG:
            return self.stage == other.stage
        return Signature(self.stage, self.kind, self.message).covers(other)


def localize_case(
    checker: Checker,
    case: Case,
    signature: Signature,
    *,
    budget: float,
    votes: Votes = ONCE,
    listener: Announce = lambda words: None,
) -> Localization:
    """Find where a case goes wrong. The case must have one target. Raise `DoesNotFail` if it does not fail now."""
    began = time.monotonic()
    deadline = began + budget
    lone = Lone.of(checker, CandidateQuestion(case, case.targets[0], signature, votes), began, budget, listener)
    trials = Trials(checker, lone.case if lone else case, signature, votes)
    listener("climbing the ladder")
    rungs = climb(trials, case.targets[0], deadline)
    if lone and not rungs[-1].wrong:
        lone, trials = None, Trials(checker, case, signature, votes)
        rungs = climb(trials, case.targets[0], deadline)
    if not rungs[-1].wrong:
        raise DoesNotFail(
            f"{case.program.name} does not fail in the same way on {case.targets[0]} now ({rungs[-1].reason})."
            " Only what fails can be localised; see driftline replay."
        )
    target = rungs[-1].target
    wrong = WrongResult(signature.stage, signature.kind, signature.message)
    try:
        if lone:
            apart = lone.apart.asked(checker, target, wrong, deadline)
            found = _Suspects(checker, apart, listener, lone.operator).found(Localization(target, lone=True))
        else:
            apart = take_apart(checker, CandidateQuestion(case.only(target), target, wrong, votes), deadline)
            found = _Suspects(checker, apart, listener).found(Localization(target))
    except NotApart as reason:
        found = Localization(target, note=str(reason))
    except (BudgetEnded, PoolExpired):
        found = Localization(target, note="the budget ended before a part was asked")
    return replace(
        found,
        rungs=tuple(rungs),
        seconds=time.monotonic() - began,
        queries=found.queries + len(rungs) + (lone.apart.search.queries if lone else 0),
        internal_errors=(*trials.internal_errors, *found.internal_errors),
    )


@dataclass(frozen=True)
class Lone:
    """An operator that fails alone in the same way as the whole program, found before the ladder was climbed."""

    apart: Apart
    operator: int
    case: Case

    @property
    def of_size(self) -> ProgramSize:
        """The size of the program that contains the operator."""
        return self.apart.run.graph.size

    @staticmethod
    def of(
        checker: Checker, question: CandidateQuestion, began: float, budget: float, listener: Announce
    ) -> Lone | None:
        if question.signature.kind not in KINDS or question.votes.runs > 1:
            return None
        deadline = began + SHARE * budget
        listener("asking single operators")
        with contextlib.suppress(NotApart, BudgetEnded, PoolExpired):
            for apart in forms_apart(checker, question, deadline):
                if apart.note:  # the program fails only in its original form
                    return None
                operator = lone_operator(apart, deadline)
                graph = apart.graph([operator]) if operator is not None else None
                case = apart.asker.case_of(graph) if graph else None
                return Lone(apart, operator, case) if operator is not None and case else None
        return None


class _Suspects:
    """Finds one suspect after another, each among the remaining operators. `lone`: an operator that is known to
    fail.
    """

    def __init__(self, checker: Checker, apart: Apart, listener: Announce, lone: int | None = None) -> None:
        self._lone = lone
        self._checker = checker
        self._apart = apart
        self._listener = listener
        self._suspects: list[SuspectPart] = []
        self._note = apart.note
        self._smallest = 0  # operators of the smallest part that is known to fail

    def found(self, about: Localization) -> Localization:
        explained, observer = False, ""
        try:
            explained = self._search()
            observer = self._observe()
        except (BudgetEnded, PoolExpired):
            left = "1 operator was" if self._smallest == 1 else f"{self._smallest} operators were"
            self._note = f"the budget ended while {left} left to look at"
        apart = self._apart
        return replace(
            about,
            suspects=tuple(self._suspects),
            form=apart.form,
            operators=len(apart.operators),
            explained=explained,
            observer=observer,
            note=self._note,
            queries=apart.search.queries + len(self._suspects),
            internal_errors=tuple(apart.asker.internal_errors),
        )

    def _search(self) -> bool:
        """Find the suspects. True if the program passes without them."""
        left = list(range(len(self._apart.operators)))
        while len(self._suspects) < MOST_SUSPECTS:
            suspects = f"{len(self._suspects)} suspect{'s' * (len(self._suspects) != 1)} so far"
            self._listener(f"{len(left)} operator{'s' * (len(left) != 1)}, {suspects}")
            self._smallest = len(left)
            lone = self._lone is not None and not self._suspects
            part = [self._lone] if lone and self._lone is not None else narrow(left, self._fail)
            suspect = self._confirmed(part)
            if suspect is None:
                self._note = "the smallest part failed when it was asked, but the ordinary check does not fail it"
                return False
            self._suspects.append(suspect)
            left = [number for number in left if number not in part]
            rest = self._without(part, left)
            if rest is not CandidateAnswer.SAME:
                return rest is CandidateAnswer.PASS
        return False

    def _fail(self, sets: Sequence[Sequence[int]]) -> list[bool]:
        graphs = [self._apart.graph(chosen) for chosen in sets]
        made = [graph for graph in graphs if graph]
        replies = iter(self._apart.search.replies(made)) if made else iter(())
        found = [bool(graph) and next(replies).answer is CandidateAnswer.SAME for graph in graphs]
        failing = [len(chosen) for chosen, fails in zip(sets, found, strict=True) if fails]
        self._smallest = min(failing or [self._smallest])
        return found

    def _without(self, part: Sequence[int], left: Sequence[int]) -> CandidateAnswer:
        """Test the program without the last suspect, and if necessary without all operators of its kind. Return the
        answer.
        """
        alike = [n for n in left if self._apart.op(n) == self._apart.op(part[0])] if len(part) == 1 else []
        known = self._lone is not None and len(self._suspects) == 1  # a kernel that is wrong is wrong everywhere
        rest = CandidateAnswer.NEITHER if known and alike else self._rest(left)
        if rest is not CandidateAnswer.PASS and alike:
            if self._rest([number for number in left if number not in alike]) is CandidateAnswer.PASS:
                rest = CandidateAnswer.PASS
            else:
                alike = []
                rest = self._rest(left) if known else rest
        elif rest is CandidateAnswer.PASS:
            alike = []
        self._suspects[-1] = replace(self._suspects[-1], alike=len(alike), rest=str(rest))
        return rest

    def _rest(self, left: Sequence[int]) -> CandidateAnswer:
        """Test the program with the right results in place of the suspects'."""
        if not left:
            return CandidateAnswer.PASS
        graph = self._apart.graph(left)
        if graph is None:
            return CandidateAnswer.NEITHER
        search = self._apart.search
        return CandidateAnswer.SAME if search.fails(graph) else search.replies([graph])[0].answer

    def _confirmed(self, part: Sequence[int]) -> SuspectPart | None:
        """Return the part as a suspect if it fails the ordinary check, otherwise None."""
        graph = self._apart.graph(part)
        case = self._apart.asker.case_of(graph) if graph else None
        for result in self._checker.check(case).results if case else ():
            if case and result.verdict.judgement is Judgement.FAIL:
                return SuspectPart(tuple(self._operator(number) for number in part), case, result)
        return None

    def _operator(self, number: int) -> PlacedOperator:
        run = self._apart.run
        nodes = [run.graph.nodes[at] for at in self._apart.operators[number]]
        read = [run.types.get(n) for n in nodes[0].operands]
        made = [run.types.get(n) for node in nodes for n in node.outputs]
        return PlacedOperator(nodes[0].op, number, tuple(filter(None, read)), tuple(filter(None, made)))

    def _observe(self) -> str:
        """Return a sentence if the program no longer fails in the same way with every value as an output. This is only
        reported; no conclusion rests on it.
        """
        alone = any(len(suspect.operators) == 1 for suspect in self._suspects)  # it has no surroundings
        count = len(self._apart.operators)
        if alone or not 1 < count <= MOST_TAPPED:
            return ""
        tapped = self._apart.graph(range(count), taps=True)
        reply = self._apart.search.replies([tapped])[0] if tapped else None
        if reply is None or reply.answer is CandidateAnswer.SAME:
            return ""
        if reply.answer is CandidateAnswer.PASS:
            return "with every value as an output the whole program passes"
        return f"with every value as an output the whole program ends otherwise: {reply.reason}"
