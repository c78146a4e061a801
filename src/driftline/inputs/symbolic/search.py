"""The search of a program for inputs, in a worker: slice at nodes that can go wrong, solve each goal, lift the
witnesses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from driftline.core.announce import Announce
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.task import Context
from driftline.core.tensors import save_tensors
from driftline.core.text import did_you_mean
from driftline.inputs.symbolic.answers import UNKNOWN, Clock, SolverAnswer, SolverOutcome, confirms
from driftline.inputs.symbolic.aten_rules import RULES
from driftline.inputs.symbolic.cached import read_answers, write_answers
from driftline.inputs.symbolic.formats import parse_format
from driftline.inputs.symbolic.goals import Goal, GoalKind, Query, parse_goals
from driftline.inputs.symbolic.lifting import Lifter, clock
from driftline.inputs.symbolic.portfolio import STEPS, solve
from driftline.inputs.symbolic.requests import SEARCH, SearchAnswer, SearchRequest, SearchRow
from driftline.inputs.symbolic.rewrites import REWRITES, rewritten
from driftline.inputs.symbolic.slices import FEW, NoRule, Slice, Slicer, values_of
from driftline.inputs.symbolic.traced import TracedProgram, trace
from driftline.programs.opened import OpenedProgram

MODERATE = 100.0  # inputs of this size are looked for first: they say more, and are easier to reach
LONGEST = 10.0  # seconds for one query
_LIFTING = 3.0  # seconds for one witness
_POLES = "div reciprocal log log2 log10 log1p sqrt rsqrt pow"
_GROWING = "exp exp2 expm1 sum mul mm addmm bmm var linalg_vector_norm mean"
SUSPICIOUS: dict[GoalKind, frozenset[str]] = {
    GoalKind.NAN: frozenset(_POLES.split()),
    GoalKind.INF: frozenset([*_POLES.split(), "exp", "exp2", "expm1"]),
    GoalKind.OVERFLOW: frozenset([*_GROWING.split(), "div", "pow"]),
    GoalKind.UNDERFLOW: frozenset(["exp", "exp2", "mul", "div", "pow", "sigmoid"]),
    GoalKind.ERROR: frozenset(["sub", "sum", "div", "log", "var", "mean", "add"]),
    GoalKind.DIVERGE: frozenset(["sub", "sum", "div", "var", "mul", "add"]),
}


@SEARCH.serve
def search(request: SearchRequest, context: Context) -> SearchAnswer:
    load_plugins(request.case.plugins)
    program = OpenedProgram.of(request.case, request.case.samples()[0])
    try:
        traced = trace(program, parse_format(request.dtype) if request.dtype else None)
        return SliceSearch(traced, request, context.enter).run()
    except DriftlineError as error:
        return SearchAnswer(problem=str(error))


class SliceSearch:
    """Searches one program for inputs that reach the requested goals."""

    def __init__(
        self,
        traced: TracedProgram,
        request: SearchRequest,
        say: Announce = lambda words: None,
        *,
        steps: Sequence[str] = tuple(STEPS),
        direct: bool = False,
    ) -> None:
        """`steps` are the steps of the portfolio to use; `direct` uses only slices that begin at the program's inputs.
        With steps that ignore the clock and direct slices, the result is deterministic."""
        self._traced, self._request, self._say = traced, request, say
        self._steps, self._only_direct = steps, direct
        self._values = values_of(traced, list(traced.example.values()))
        self._short = Slicer(traced, self._values, RULES, short=True)
        self._plain = Slicer(traced, self._values, RULES)
        self._tied = Slicer(traced, self._values, RULES, tied=True)
        self._lifter = Lifter(traced, request.case.seed)
        self._answers = _Cache(request.cache)
        self._left = clock(request.budget)
        self._files = 0

    def run(self) -> SearchAnswer:
        try:
            return self._run()
        finally:
            self._answers.keep()

    def _run(self) -> SearchAnswer:
        asked = list(self._queries())
        if not asked and self._request.node:
            raise DriftlineError(f"--node {self._request.node}: nothing can be solved there for these goals.")
        rows: list[SearchRow] = []
        reached = 0
        for number, (node, goal, groups) in enumerate(asked):
            self._say(f"{number + 1} of {len(asked)}: {goal} at {self._traced.labels.get(node.name, node.name)}")
            share = min(LONGEST, max(self._left(), 0) / (len(asked) - number) * 3)
            if self._left() <= 0:
                return SearchAnswer(tuple(rows), unasked=len(asked) - number)
            rows.append(self._row(node, goal, groups, share))
            reached += rows[-1].reach == "program"
            if self._request.most and reached >= self._request.most:
                break
        return SearchAnswer(tuple(rows))

    def _queries(self) -> Iterator[tuple[Any, Goal, list[_Asked]]]:
        """Yield, for each goal and each node, the slices of some elements with their queries, in the order to try
        them."""
        goals = parse_goals(self._request.goals, list(REWRITES))
        nodes = self._nodes()
        slices: dict[Any, list[list[Slice]]] = {}
        for goal in goals:
            for node in nodes:
                if not self._request.node and _name(node) not in SUSPICIOUS[goal.kind]:
                    continue
                if node not in slices:
                    slices[node] = self._elements(node)
                groups = [
                    [(piece, query) for piece in pieces if (query := _query(piece, goal))] for pieces in slices[node]
                ]
                if any(groups):
                    yield node, goal, [group for group in groups if group]

    def _nodes(self) -> list[Any]:
        floats = [
            node
            for node in self._traced.nodes
            if node.op == "call_function"
            and isinstance(self._values[node], torch.Tensor)
            and self._values[node].is_floating_point()
            and self._values[node].numel()
            and node in self._plain.varying
        ]
        wanted = self._request.node
        if not wanted:
            return floats
        labels = self._traced.labels
        found = [n for n in floats if wanted == n.name or labels.get(n.name, "").partition(" (")[0] == wanted]
        if not found:
            known = [*(n.name for n in floats), *(label.partition(" (")[0] for label in labels.values())]
            few = ", ".join(dict.fromkeys(known[:12]))
            raise DriftlineError(
                f"--node {wanted}: there is no such node.{did_you_mean(wanted, known)} Some are: {few}."
            )
        return found

    def _elements(self, node: Any) -> list[list[Slice]]:
        """Return the slices of the first element, and of the last and middle ones if their expressions differ: weights
        and constants differ between elements."""
        last = self._values[node].numel() - 1
        found: dict[tuple[str, ...], list[Slice]] = {}
        for at in dict.fromkeys((0, last, last // 2)):
            if pieces := self._slices(node, at):
                found.setdefault(tuple(piece.signature for piece in pieces), pieces)
        return list(found.values())

    def _slices(self, node: Any, at: int) -> list[Slice]:
        """Return a short slice, cut before long sums, and the long slice, with tied rows if it has many variables."""
        found: dict[str, Slice] = {}
        try:
            short = self._short.slice(node, at)
            if len(short.places) <= FEW:
                found[short.signature] = short
            piece = self._plain.slice(node, at)
            piece = piece if len(piece.places) <= FEW else self._tied.slice(node, at)
            found.setdefault(piece.signature, piece)
        except NoRule:
            pass
        # What has inputs alone for variables is lifted by writing them down.
        ordered = sorted(found.values(), key=lambda piece: not self._is_direct(piece))
        return [piece for piece in ordered if not self._only_direct or self._is_direct(piece)]

    def _is_direct(self, piece: Slice) -> bool:
        return all(place.node in self._lifter.inputs for place in piece.places.values())

    def _row(self, node: Any, goal: Goal, groups: list[_Asked], seconds: float) -> SearchRow:
        """Search element by element until a witness reaches the program. Returns the best result over these
        elements."""
        left = clock(seconds)
        rows: list[SearchRow] = []
        for number, pieces in enumerate(groups):
            rows.append(self._element_row(node, goal, pieces, max(left(), 0.05) / (len(groups) - number)))
            if rows[-1].reach == "program":
                break
        said = min(rows, key=lambda row: (row.reach != "program", row.reach != "slice", row.outcome == "proof"))
        return replace(said, seconds=sum(row.seconds for row in rows))

    def _element_row(self, node: Any, goal: Goal, pieces: _Asked, seconds: float) -> SearchRow:
        """Search inputs of moderate size first, then all. Stops at a witness that reaches the program, or at a
        proof."""
        left = clock(seconds)
        label = self._traced.labels.get(node.name, "")
        row = SearchRow(node.name, _name(node), str(goal), str(SolverOutcome.UNKNOWN), label=label)
        first: SolverAnswer = UNKNOWN
        turns = [(piece, query, moderate) for piece, query in pieces for moderate in (True, False)]
        for number, (piece, query, moderate) in enumerate(turns):
            ranges = {n.name: (-MODERATE, MODERATE) for n in query.variables} if moderate else {}
            tried = replace(query, ranges=ranges)
            share = 0.8 if number == len(turns) - 1 else 0.2
            answer = self._answers.get(piece, tried) or self._solved(piece, tried, left, share)
            if answer.outcome is SolverOutcome.PROOF and not moderate:
                return _said(row, answer, seconds - left())
            if answer.outcome is SolverOutcome.WITNESS:
                first = first if first.outcome is SolverOutcome.WITNESS else answer
                until = clock(min(_LIFTING, max(left(), 0)))
                if lifted := self._lifter.lift(piece, tried, answer.numbers, until):
                    said = _said(row, self._named(answer), seconds - left())
                    path = self._kept(lifted.tensors)
                    return replace(said, reach="program", inputs=path, nan=lifted.nan, inf=lifted.inf)
        said = _said(row, self._named(first), seconds - left())
        return replace(said, reach="slice" if first.outcome is SolverOutcome.WITNESS else "")

    def _named(self, answer: SolverAnswer) -> SolverAnswer:
        """Return the answer with the variable names that the user knows: `x[3]` instead of the graph's `arg0_1[3]`."""
        labels = self._traced.labels

        def named(variable: str) -> str:
            node, bracket, place = variable.partition("[")
            return f"{labels.get(node, node).partition(' (')[0]}{bracket}{place}"

        return replace(answer, numbers={named(name): value for name, value in answer.numbers.items()})

    def _solved(self, piece: Slice, query: Query, left: Clock, share: float) -> SolverAnswer:
        answer = solve(query, max(left(), 0.05) * share, seed=self._request.case.seed, steps=self._steps)
        self._answers.put(piece, query, answer)
        return answer

    def _kept(self, tensors: list[torch.Tensor]) -> Path:
        path = self._request.case.folder / f"witness{self._files}"
        self._files += 1
        save_tensors(path, self._traced.arrays(tensors))
        return path


_Asked = list[tuple[Slice, Query]]  # the slices of one element, with their queries


def _said(row: SearchRow, answer: SolverAnswer, seconds: float) -> SearchRow:
    return replace(row, outcome=str(answer.outcome), step=answer.step, numbers=dict(answer.numbers), seconds=seconds)


def _name(node: Any) -> str:
    return str(node.target).removeprefix("aten.").partition(".")[0]


def _query(piece: Slice, goal: Goal) -> Query | None:
    """Return the query for a slice; None if the goal does not apply to the slice."""
    if not piece.places or (goal.kind is GoalKind.ERROR and piece.root.format.name == "float64"):
        return None
    if goal.kind is not GoalKind.DIVERGE:
        return Query(goal, (piece.root,), local=True)
    sides = [rewritten(name, (piece.root,)) for name in (goal.left, goal.right)]
    if sides[0] is None or sides[1] is None or sides[0] == sides[1]:
        return None
    return Query(goal, sides[0], sides[1])


class _Cache:
    """Answers by slice, so that repeated layers, and programs that are searched again, are solved once."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, tuple[str, str, list[float]]] = read_answers(path) if path else {}

    def get(self, piece: Slice, query: Query) -> SolverAnswer | None:
        """Return the stored answer. A stored witness is confirmed by running it again."""
        found = self._known.get(self._key(piece, query))
        if found is None:
            return None
        outcome, step, numbers = found
        if len(numbers) not in (0, len(query.variables)):
            return None
        given = dict(zip((node.name for node in query.variables), numbers, strict=False))
        answer = SolverAnswer(SolverOutcome(outcome), step, given)
        return answer if answer.outcome is not SolverOutcome.WITNESS or confirms(query, given) else None

    def put(self, piece: Slice, query: Query, answer: SolverAnswer) -> None:
        if answer.outcome is SolverOutcome.UNKNOWN:
            return
        numbers = [answer.numbers[node.name] for node in query.variables] if answer.numbers else []
        self._known[self._key(piece, query)] = (str(answer.outcome), answer.step, numbers)

    def keep(self) -> None:
        if self._path:
            write_answers(self._path, self._known)

    def _key(self, piece: Slice, query: Query) -> str:
        ranges = sorted(set(query.ranges.values()))
        return hashlib.sha256(f"{piece.signature} {query.goal} {query.local} {ranges}".encode()).hexdigest()
