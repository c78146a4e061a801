"""Screening of variations of one suspect: what failed, on which inputs, and how the next program is asked for."""

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
    """Screens programs on the target of the suspect."""

    def __init__(self, screening: Screening, target: Target, options: CheckOptions) -> None:
        self._screening = screening
        self._target = target
        self._options = options

    def screen(self, requests: Sequence[ProgramRequest]) -> list[Screened]:
        return self._screening.screen(requests, self._target) if requests else []

    def graph_as_it_failed(self, failing: Screened) -> Graph | None:
        """The graph of a program, at the size at which it failed."""
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
        """What it failed on."""
        assert failing.made
        return dict(case_of(failing.made, self._target, self._options, [failing.sample]).samples[0].arrays)

    def values(self, failing: Screened, graph: Graph, calls: Sequence[Arrays] = ()) -> str | None:
        """What every value of the graph is on these inputs, or in each of several calls, in a file; `None` when it
        cannot be found out."""
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
        """Compiled once, and called on each of these inputs in turn."""
        return replace(PART, graph=graph, inputs=self._written(*calls), strategies=PART.strategies * len(calls))

    def on_values(self, graph: Graph, values: str, sources: Sequence[int], calls: int = 1) -> ProgramRequest:
        """A part of a program whose values are in a file, of so many calls. `sources[i]` is the number there of leaf
        i."""
        return replace(PART, graph=graph, values=values, sources=tuple(sources), strategies=PART.strategies * calls)

    def on_arrays(self, graph: Graph, values: Arrays, sources: Sequence[int]) -> ProgramRequest:
        """The same with values in memory."""
        return self.on_values(graph, self._written(values), sources)

    def new_folder(self) -> Path:
        """For files that live as long as the screening."""
        return Path(tempfile.mkdtemp(dir=self._screening.folder))

    def of_program(self, made: PreparedProgram, coverage: tuple[tuple[str, str], ...]) -> ProgramRequest:
        """A part of a program that is no graph of ours, which was written as a program."""
        place, strategies = str(made.program.path), PART.strategies * len(made.origins)
        return replace(PART, model=place, inputs=made.tensors, strategies=strategies, coverage=coverage)

    def calls(self, failing: Screened) -> Case:
        """The program with its inputs, up to those that it failed on."""
        assert failing.made
        return case_of(failing.made, self._target, self._options, range(failing.sample + 1))

    def first_results(self, requests: Sequence[ProgramRequest]) -> list[list[Array] | None]:
        """What the target returns."""
        return self._screening.first_results(requests, self._target)

    def first_outputs(self, request: ProgramRequest) -> Arrays | None:
        """What the target returns, and what it made of inputs that it wrote to."""
        return self._screening.first_outputs([request], self._target)[0]

    @property
    def writes_to_inputs(self) -> bool:
        """Is the target given the inputs themselves, and not copies?"""
        return BACKENDS.get(self._target.backend).mutates

    def references(self, request: ProgramRequest) -> list[Array] | None:
        """What the framework itself returns."""
        answer = self._screening.prepare([request])[0]
        return own_results(native_of(answer)[0]) if isinstance(answer, PreparedProgram) else None

    def again(self, failing: Screened, instead: Arrays | None = None) -> ProgramRequest:
        """The request that makes this very program on this very sample once more, or on others."""
        assert failing.made
        graph = self.graph_as_it_failed(failing) or failing.request.graph
        origin = failing.made.origins[failing.sample]
        inputs = self._written(self.inputs(failing) if instead is None else instead)
        return replace(failing.request, graph=graph, inputs=inputs, strategies=(origin,))

    def needed_settings(self, failing: Screened) -> tuple[str, ...]:
        """The settings of the target without which it passes, as circumstances: an experiment for each."""
        plainer = list(targets_without(self._target))
        if not plainer:
            return ()
        again = self.again(failing)
        if self.screen([again])[0].judgement != "fail":  # it takes more than this sample: nothing can be concluded
            return ()
        answers = {setting: self._screening.screen([again], target)[0] for setting, target in plainer}
        return tuple(setting for setting, answer in answers.items() if answer.judgement == "pass")

    def _written(self, *calls: Arrays) -> str:
        with Shelf(self._screening.folder / "arrays") as shelf:
            return shelf.put_samples(calls)
