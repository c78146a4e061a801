"""Order the steps of a reduction: fewer nodes, then simpler ones, then the proof that no single step is left.

A step that fails is tried again whenever another step has changed the program. So steps that often succeed come first,
and the proof, which is expected to fail everywhere, comes last.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from driftline.diagnose.reduce.cutting import MODES, fewer_ends, plain_removals
from driftline.diagnose.reduce.graph import ProgramGraph
from driftline.diagnose.reduce.nodes import SMALL, Evaluate, fewer_nodes, is_one_minimal, one_by_one, rare_kept
from driftline.diagnose.reduce.plainer import Plainer
from driftline.diagnose.reduce.search import BudgetEnded, Search
from driftline.diagnose.reduce.text import ProgramText, fewer_statements, plainer_inputs, smaller_expressions
from driftline.diagnose.reduce.values import Values
from driftline.execute.pool import PoolExpired


class GraphShrinker:
    """Shrinks graphs.

    `numbers_matter` is a guess; if it is wrong, more questions are asked. `most`: inputs of a program in one question.
    `nodes_only`: shapes, dtypes and numbers stay unchanged.
    """

    def __init__(
        self, values: Values, evaluate: Evaluate, *, numbers_matter: bool, most: int = 1, nodes_only: bool = False
    ) -> None:
        self._evaluate = evaluate
        self._nodes_only = nodes_only
        self._numbers_matter = numbers_matter
        self._plainer = Plainer(values, numbers_matter=numbers_matter, most=most)

    def begins(self, search: Search[ProgramGraph]) -> bool:
        """True if the program, or a part of it, fails in this form."""
        return rare_kept(search, self._evaluate) or search.begins()

    def shrink(self, search: Search[ProgramGraph]) -> bool:
        """Run all steps until none works, then return whether the result is 1-minimal; False if the budget ends
        first.
        """
        with contextlib.suppress(BudgetEnded, PoolExpired):
            fewer_nodes(search, self._evaluate)
            if search.best.size.operators > SMALL:
                one_by_one(search, self._evaluate)
            while True:
                before = search.best.size
                for what, step in self._steps(search):
                    while search.first(step(search.best), what):
                        pass
                one_by_one(search, self._evaluate)
                if search.best.size == before:
                    return is_one_minimal(search, self._evaluate)
        return False

    def _steps(
        self, search: Search[ProgramGraph]
    ) -> Iterator[tuple[str, Callable[[ProgramGraph], Iterable[ProgramGraph]]]]:
        """Yield the steps in order. If numbers matter, each remaining operator and constant costs questions about its
        numbers, so these are removed first. The search for nodes stops at three operators, which are seldom all needed.
        """

        def removals(graph: ProgramGraph) -> Iterator[ProgramGraph]:
            if self._numbers_matter or graph.size.operators == SMALL:
                yield from plain_removals(self._evaluate(graph), MODES[0])

        yield "an operator removed", removals
        if self._numbers_matter:
            yield "an input or output removed", lambda graph: fewer_ends(self._evaluate(graph))
        if not self._nodes_only:
            yield from self._plainer.steps(search.passes)


class TextShrinker:
    """Shrinks Python text."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def begins(self, search: Search[ProgramText]) -> bool:
        return search.begins()

    def shrink(self, search: Search[ProgramText]) -> bool:
        with contextlib.suppress(BudgetEnded, PoolExpired):
            while True:
                before = search.best.size
                for what, step in self._steps():
                    while search.first(step(search.best), what):
                        pass
                if search.best.size == before:
                    return True
        return False

    def _steps(self) -> Iterator[tuple[str, Callable[[ProgramText], Iterator[ProgramText]]]]:
        yield "statements removed", fewer_statements
        yield "a smaller expression", smaller_expressions
        yield "plainer inputs", lambda text: plainer_inputs(text, self._values)
