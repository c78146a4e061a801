"""Finds the parts of a suspect that are worth a report: small ones that fail by themselves.

The reducer (`diagnose/reduce`) cuts the generated graph before it is written as a program. A part is run on the values
that the whole computed, so any failure of it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from driftline.campaign.triage.later_calls import CallByCall, calls_of, in_fewest_calls
from driftline.campaign.triage.part_screening import PartScreening
from driftline.checking.batch import Screened
from driftline.diagnose.reduce.generated import handed_through, read_generated
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph
from driftline.diagnose.reduce.search import BudgetEnded, CandidateAnswer, Reply, Search
from driftline.diagnose.reduce.small_parts import MOST_PARTS, fewer_operators, small_parts
from driftline.execute.pool import PoolExpired
from driftline.generate.naming import named, pattern

MOST_REPORTED = 4  # parts of one suspect
IMPRECISE = 2  # of these, parts that are only imprecise, beside one that is wrong
FEWEST = 2  # operators of a part that no smaller part explains: single operators were tried before


class SmallestParts:
    """Finds the failing parts by screening, until the deadline (`time.monotonic`)."""

    def __init__(self, screening: PartScreening, deadline: float) -> None:
        self._screening = screening
        self._deadline = deadline

    def of(self, whole: Screened) -> list[Screened]:
        """Return each operator that fails alone, or the smallest sets of operators that fail together."""
        whole = in_fewest_calls(self._screening, whole)
        graph = whole.made.graph if whole.sample and whole.made else self._screening.graph_as_it_failed(whole)
        calls = calls_of(self._screening, whole) if whole.sample else []
        values = self._screening.values(whole, graph, calls) if graph else None
        if graph is None or values is None:
            return [whole]
        cut = CallByCall(graph, values, len(calls) or 1)
        through = [cut.asked(self._screening, value, [number]) for number, value in handed_through(graph)]
        if crude := [result for result in self._screening.screen(through) if result.judgement == "fail"]:
            return _by_pattern(crude)

        def ask(parts: Sequence[ProgramGraph]) -> list[Screened]:
            return self._screening.screen([cut.part(self._screening, part) for part in parts])

        return Cutting(whole, read_generated(graph), ask, self._deadline).parts()


class Cutting:
    """The search in one program whose values are known. `ask` runs parts of it on these values."""

    def __init__(
        self,
        whole: Screened,
        base: Evaluated,
        ask: Callable[[Sequence[ProgramGraph]], list[Screened]],
        deadline: float,
        explains: Callable[[Screened], bool] | None = None,
    ) -> None:
        """`explains`: True if a failing part may cause the failure of the whole. The default accepts all, except
        reduced precision in a whole that is plainly wrong."""
        self._whole = whole
        self._base = base
        self._screen = ask
        self._explains = explains or self._is_as_wrong
        self._screened: dict[str, Screened] = {}
        self._search = Search(
            self._ask, base.graph, deadline=deadline, batch=MOST_PARTS, least=MOST_PARTS
        )  # a batch is three jobs, however many programs it has

    def parts(self) -> list[Screened]:
        """Return the small parts that explain the failure, or else the smallest failing program and some imprecise
        parts."""
        imprecise: list[Screened] = []
        try:
            for parts in small_parts(self._base):
                replies = self._search.replies(parts)
                if telling := self._those(parts, replies, CandidateAnswer.SAME):
                    return _by_pattern(telling)[:MOST_REPORTED]
                imprecise += self._those(parts, replies, CandidateAnswer.OTHER)
            fewer_operators(self._search, self._evaluate, FEWEST)
        except BudgetEnded as ended:
            if isinstance(ended.__cause__, PoolExpired):  # the hunt's time is over: it is examined after a resume
                raise ended.__cause__ from None
        smallest = self._screened.get(self._search.best.key, self._whole)
        return [smallest, *_by_pattern(imprecise)[:IMPRECISE]]

    def _those(
        self, parts: Sequence[ProgramGraph], replies: Sequence[Reply], answer: CandidateAnswer
    ) -> list[Screened]:
        return [self._screened[part.key] for part, reply in zip(parts, replies, strict=True) if reply.answer is answer]

    def _ask(self, parts: Sequence[ProgramGraph]) -> list[Reply]:
        results = self._screen(parts)
        self._screened |= {part.key: result for part, result in zip(parts, results, strict=True)}
        return [self._reply(result) for result in results]

    def _reply(self, result: Screened) -> Reply:
        if result.judgement != "fail":
            passes = result.judgement == "pass"
            return Reply(CandidateAnswer.PASS if passes else CandidateAnswer.NEITHER, result.reason)
        answer = CandidateAnswer.SAME if self._explains(result) else CandidateAnswer.OTHER
        return Reply(answer, result.reason, result.kind)

    def _is_as_wrong(self, part: Screened) -> bool:
        return bool(self._whole.evidence.policies) or not part.evidence.policies

    def _evaluate(self, part: ProgramGraph) -> Evaluated:
        """Return the part with the known values of the whole."""
        return replace(self._base, graph=part)


def _by_pattern(failing: Sequence[Screened]) -> list[Screened]:
    """Return one part for each pattern and kind of failure."""
    found: dict[tuple[str, str], Screened] = {}
    for result in failing:
        assert result.made
        graph = result.made.graph
        found.setdefault((result.kind, pattern(graph) if graph else named(result.coverage)), result)
    return list(found.values())
