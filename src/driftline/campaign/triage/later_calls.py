"""Reduces failures that show only in a later call of a compiled program, together with the calls before.

A compiler may keep something of one call for the next, such as a result or a size. The parts of such a program are
right when they are called once: each part is compiled, called on the values of the earlier calls, and then on those of
the failing one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from driftline.campaign.triage.part_screening import PartScreening
from driftline.campaign.triage.plainest import cast, same_failure
from driftline.checking.batch import Screened
from driftline.checking.batch_requests import ProgramRequest
from driftline.core.tensors import Arrays
from driftline.core.verdict import VALUE_KINDS, Kind
from driftline.diagnose.reduce.generated import in_plainer_dtypes, write_generated
from driftline.diagnose.reduce.graph import ProgramGraph
from driftline.generate.graph import Graph
from driftline.generate.mutate import retyped
from driftline.generate.random_graph import GROWTH, resized


def in_fewest_calls(screening: PartScreening, whole: Screened) -> Screened:
    """Return the program with as few calls as it needs to fail: one, or those at one size, or all."""
    graph = screening.graph_as_it_failed(whole)
    if not whole.sample or graph is None:
        return whole
    *before, last = calls_of(screening, whole)
    alike = [*(arrays for arrays in before if _shapes(arrays) == _shapes(last)), last]
    fewer = [[last], *([alike] if 1 < len(alike) <= len(before) else [])]
    answers = screening.screen([_called(screening, whole, graph, calls) for calls in fewer])
    return next((answer for answer in answers if same_failure(answer, whole)), whole)


def calls_of(screening: PartScreening, failing: Screened) -> list[Arrays]:
    """Return the inputs of all calls, up to those on which the program failed."""
    return [dict(sample.arrays) for sample in screening.calls(failing).samples]


class CallByCall:
    """Builds requests for parts of a program that fails in a later call, on the values that the program computed in
    each call."""

    def __init__(self, graph: Graph, values: str, calls: int) -> None:
        self._graph = graph
        self._values = values
        self._calls = calls
        grown = resized(graph, graph.varying, graph.varying + GROWTH) if graph.varying else None
        pairs = zip(graph.types(), grown.types() if grown else (), strict=False)
        self._varying = {number for number, (one, other) in enumerate(pairs) if one != other}

    def asked(self, screening: PartScreening, part: Graph, sources: Sequence[int]) -> ProgramRequest:
        """Return the request for a part. If none of its operands changes in size, the part has one size."""
        varying = self._graph.varying if self._varying.intersection(sources) else 0
        return screening.on_values(replace(part, varying=varying), self._values, sources, self._calls)

    def part(self, screening: PartScreening, part: ProgramGraph) -> ProgramRequest:
        written = write_generated(part, self._graph)
        return self.asked(screening, written, [leaf.number for leaf in part.leaves])


class PlainLaterCall:
    """Finds the plainest form of a part that passes in a first call: without gradient, in the plainest dtype, until the
    deadline (`time.monotonic`). `PlainestForm`, which calls a part once, does not apply."""

    def __init__(self, screening: PartScreening, language: str, deadline: float) -> None:
        self._screening = screening
        self._language = language
        self._deadline = deadline

    def of(self, part: Screened) -> Screened:
        """Return the plainest form of a part that fails in a later call."""
        for simpler in (self._untransformed, self._in_plainer_dtype):
            graph = part.made.graph if part.made else None
            if not part.sample or graph is None or time.monotonic() > self._deadline:
                return part
            part = simpler(part, graph)
        return part

    def _untransformed(self, part: Screened, graph: Graph) -> Screened:
        """Return the part without gradient or transformation if that is also wrong in this call, in whatever way."""
        if not (graph.grad or graph.transform):
            return part
        calls = calls_of(self._screening, part)
        (plain,) = self._screening.screen([self._screening.in_calls(replace(graph, grad=False, transform=""), calls)])
        no_crash = part.kind in (*VALUE_KINDS, Kind.WRONG_STRUCTURE)
        wrong = no_crash and plain.kind in VALUE_KINDS and plain.sample == part.sample
        return plain if wrong and bool(plain.evidence.policies) == bool(part.evidence.policies) else part

    def _in_plainer_dtype(self, part: Screened, graph: Graph) -> Screened:
        """Return the part in the first plainer dtype in which it fails in the same way, also in a later call."""
        calls = calls_of(self._screening, part)
        requests = [
            self._screening.in_calls(plain, [cast(arrays, old, new) for arrays in calls])
            for changed, old, new in in_plainer_dtypes(graph)
            if (plain := retyped(changed, self._language)) is not None
        ]
        answers = self._screening.screen(requests)
        return next((answer for answer in answers if answer.sample and same_failure(answer, part)), part)


def _called(screening: PartScreening, whole: Screened, graph: Graph, calls: Sequence[Arrays]) -> ProgramRequest:
    """Return a request for the program at one size, on these inputs alone."""
    assert whole.made
    origins = (whole.made.origins[whole.sample],) * len(calls)
    return replace(whole.request, graph=graph, inputs=screening.in_calls(graph, calls).inputs, strategies=origins)


def _shapes(arrays: Arrays) -> list[tuple[int, ...]]:
    return [array.shape for array in arrays.values()]
