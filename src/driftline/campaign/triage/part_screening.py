"""Screens variations of one suspect: builds their requests and returns their results."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from driftline.backends import BACKENDS
from driftline.campaign.check.target_settings import targets_without
from driftline.checking.batch import Screened, Screening, case_of, native_of
from driftline.checking.batch_requests import PreparedProgram, ProgramRequest
from driftline.checking.screener import own_results
from driftline.core.case import Case, CheckOptions
from driftline.core.target import Target
from driftline.core.tensors import Array, Arrays
from driftline.diagnose.reduce.generated import everything_returned
from driftline.execute.shelf import Shelf
from driftline.generate.graph import Graph
from driftline.generate.random_graph import GROWTH, resized

PART = ProgramRequest("part", "", 0, strategies=("part",), seed="")


class PartScreening:
    """Screens programs on the target of a suspect, and builds the requests for its parts and variations."""

    def __init__(self, screening: Screening, target: Target, options: CheckOptions) -> None:
        self._screening = screening
        self._target = target
        self._options = options

    def screen(self, requests: Sequence[ProgramRequest]) -> list[Screened]:
        return self._screening.screen(requests, self._target) if requests else []

    def graph_as_it_failed(self, failing: Screened) -> Graph | None:
        """Return the graph of a program at the size at which it failed, or None if it has no graph."""
        assert failing.made
        graph = failing.made.graph
        if graph is None:
            return None
        if graph.varying:
            shapes = [array.shape for array in self.inputs(failing).values()]
            if shapes != [graph.leaves[number].type.shape for number in graph.inputs]:
                graph = resized(graph, graph.varying, graph.varying + GROWTH) or graph
        return replace(graph, varying=0)

    def inputs(self, failing: Screened) -> Arrays:
        """Return the inputs on which a program failed."""
        assert failing.made
        return dict(case_of(failing.made, self._target, self._options, [failing.sample]).samples[0].arrays)

    def values(self, failing: Screened, graph: Graph, calls: Sequence[Arrays] = ()) -> str | None:
        """Write all values of a graph to a file, on these inputs or in each of several calls, and return its path; None
        if they cannot be computed."""
        given = calls or [self.inputs(failing)]
        answer = self._screening.prepare([self.in_calls(everything_returned(graph), given)])[0]
        if not isinstance(answer, PreparedProgram):
            return None
        first, every = len(graph.leaves), []
        for inputs, native in zip(given, native_of(answer), strict=True):
            results = own_results(native)
            if len(results) != len(graph.types()) - first:
                return None
            arrays = {str(number): array for number, array in zip(graph.inputs, inputs.values(), strict=True)}
            every.append(arrays | {str(first + at): array for at, array in enumerate(results)})
        return self._written(*every)

    def on_inputs(self, graph: Graph, arrays: Arrays) -> ProgramRequest:
        return self.in_calls(graph, [arrays])

    def in_calls(self, graph: Graph, calls: Sequence[Arrays]) -> ProgramRequest:
        """Return a request to compile a graph once and call it on each of these inputs in turn."""
        return replace(PART, graph=graph, inputs=self._written(*calls), strategies=PART.strategies * len(calls))

    def on_values(self, graph: Graph, values: str, sources: Sequence[int], calls: int = 1) -> ProgramRequest:
        """Return a request for a part, called `calls` times, on values of the whole program that are in a file.
        `sources[i]` is the number of leaf i in that file."""
        return replace(PART, graph=graph, values=values, sources=tuple(sources), strategies=PART.strategies * calls)

    def on_arrays(self, graph: Graph, values: Arrays, sources: Sequence[int]) -> ProgramRequest:
        """Return a request for a part, on values in memory."""
        return self.on_values(graph, self._written(values), sources)

    def new_folder(self) -> Path:
        """Return a new folder, deleted with the screening."""
        return Path(tempfile.mkdtemp(dir=self._screening.folder))

    def of_program(self, made: PreparedProgram, coverage: tuple[tuple[str, str], ...]) -> ProgramRequest:
        """Return a request for a part that was written as a program, without a graph."""
        place, strategies = str(made.program.path), PART.strategies * len(made.origins)
        return replace(PART, model=place, inputs=made.tensors, strategies=strategies, coverage=coverage)

    def calls(self, failing: Screened) -> Case:
        """Return the program as a case, with its inputs up to the failing ones."""
        assert failing.made
        return case_of(failing.made, self._target, self._options, range(failing.sample + 1))

    def first_results(self, requests: Sequence[ProgramRequest]) -> list[list[Array] | None]:
        """Return the results of the target for the first sample of each program, or None where it returns none."""
        return self._screening.first_results(requests, self._target)

    def first_outputs(self, request: ProgramRequest) -> Arrays | None:
        """Return the results of the target, and the inputs that it wrote to, or None."""
        return self._screening.first_outputs([request], self._target)[0]

    @property
    def writes_to_inputs(self) -> bool:
        """True if the target is given the inputs themselves, not copies."""
        return BACKENDS.get(self._target.backend).mutates

    def references(self, request: ProgramRequest) -> list[Array] | None:
        """Return the results of the framework itself, or None if it cannot run the program."""
        answer = self._screening.prepare([request])[0]
        return own_results(native_of(answer)[0]) if isinstance(answer, PreparedProgram) else None

    def again(self, failing: Screened, instead: Arrays | None = None) -> ProgramRequest:
        """Return a request for the same program on the failing sample, or on the inputs `instead`."""
        assert failing.made
        graph = self.graph_as_it_failed(failing) or failing.request.graph
        origin = failing.made.origins[failing.sample]
        inputs = self._written(self.inputs(failing) if instead is None else instead)
        return replace(failing.request, graph=graph, inputs=inputs, strategies=(origin,))

    def needed_settings(self, failing: Screened) -> tuple[str, ...]:
        """Return the settings of the target without which the program passes, as circumstances; each takes an
        experiment."""
        plainer = list(targets_without(self._target))
        if not plainer:
            return ()
        again = self.again(failing)
        if self.screen([again])[0].judgement != "fail":  # it fails only with more samples: nothing follows
            return ()
        answers = {setting: self._screening.screen([again], target)[0] for setting, target in plainer}
        return tuple(setting for setting, answer in answers.items() if answer.judgement == "pass")

    def _written(self, *calls: Arrays) -> str:
        with Shelf(self._screening.folder / "arrays") as shelf:
            return shelf.put_samples(calls)
