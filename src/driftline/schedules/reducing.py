"""Reduces a failing trace while it fails in the same way: fewer steps, simpler function, smaller sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from driftline.schedules.functions import function_of, simpler_than
from driftline.schedules.naming import FailureLike
from driftline.schedules.requests import Performed
from driftline.schedules.trace import ScheduleStep, Trace

Perform = Callable[[Sequence[Trace], bool], list[Performed]]  # the traces, and whether steps may be left out
_SIZES = (2, 3, 4, 5, 8)
_NUMBERS = (0, 1, 2, 3, 4)
_AT_ONCE = 4  # candidates of one request: more would be run in vain when the first of them fails
_SIMPLER_SIZE = 5  # of a size that another function does not have


@dataclass
class TraceReduction:
    """A search for the smallest trace that fails like the first one. `asked` counts the schedules that were run."""

    perform: Perform
    best: Performed
    asked: int = 0

    def __post_init__(self) -> None:
        self._like = FailureLike.of(self.best)

    def known_steps(self, known: Iterable[tuple[str, ...]]) -> Performed:
        """Try to keep only the steps of a known failure of this kind, if the trace contains them."""
        steps = self.best.trace.steps
        for names in sorted(known, key=lambda one: (len(one), one)):
            places = {_places(names, steps), _places(names[::-1], steps[::-1], backwards=True)} - {()}
            candidates = [self.best.trace.with_steps(tuple(steps[at] for at in some)) for some in sorted(places)]
            if len(names) < len(steps) and self._take(candidates, lenient=True):
                break
        return self.best

    def fewer_steps(self) -> Performed:
        """Remove steps one at a time, with steps that become impossible, until all are needed. Later steps are also
        tried on the original block instead of one that the removed step made."""
        shrunk = True
        while shrunk:
            shrunk = False
            for index in reversed(range(len(self.best.trace.steps))):
                steps = self.best.trace.steps
                if index < len(steps):
                    left = self.best.trace.with_steps((*steps[:index], *steps[index + 1 :]))
                    shrunk |= self._take([left, _on_first_blocks(left)], lenient=True)
        return self.best

    def simpler_function(self) -> Performed:
        self._take(list(_on_simpler_functions(self.best.trace)))
        return self.best

    def all_else(self) -> Performed:
        """Reduce sizes and factors, then steps again, since a simpler function may need fewer."""
        while self._take(list(_with_smaller_sizes(self.best.trace))):
            pass
        for index in range(len(self.best.trace.steps)):
            while self._take(list(_with_plainer_step(self.best.trace, index))):
                pass
        return self.fewer_steps()

    def _take(self, candidates: Sequence[Trace], *, lenient: bool = False) -> bool:
        """True if a candidate fails in the same way; the first such candidate becomes the best."""
        new = [one for at, one in enumerate(candidates) if one not in candidates[:at] and one != self.best.trace]
        for start in range(0, len(new), _AT_ONCE):
            some = new[start : start + _AT_ONCE]
            self.asked += len(some)
            for found in self.perform(some, lenient):
                if found.fails and FailureLike.of(found) == self._like and found.trace != self.best.trace:
                    self.best = found
                    return True
        return False


def _places(names: Sequence[str], steps: Sequence[ScheduleStep], *, backwards: bool = False) -> tuple[int, ...]:
    """Return the positions of these primitives among the steps, each as early as possible (`backwards`: as late); empty
    if one is missing."""
    found: list[int] = []
    for name in names:
        start = found[-1] + 1 if found else 0
        at = next((i for i in range(start, len(steps)) if steps[i].primitive == name), None)
        if at is None:
            return ()
        found.append(at)
    return tuple(len(steps) - 1 - at for at in reversed(found)) if backwards else tuple(found)


def _on_first_blocks(trace: Trace) -> Trace:
    """Return the trace with derived blocks (`Y_init`, `Y_rf`, `Y_global`) replaced by the original block `Y`."""

    def first(step: ScheduleStep) -> ScheduleStep:
        return replace(
            step,
            blocks=tuple(name.partition("_")[0] for name in step.blocks),
            loops=tuple(replace(at, block=at.block.partition("_")[0]) for at in step.loops),
        )

    return trace.with_steps(tuple(first(step) for step in trace.steps))


def _on_simpler_functions(trace: Trace) -> Iterator[Trace]:
    for function in simpler_than(trace.function):
        sizes = {name: trace.sizes.get(name, _SIMPLER_SIZE) for name in function.sizes}
        yield replace(trace, function=function.name, sizes=sizes)


def _with_smaller_sizes(trace: Trace) -> Iterator[Trace]:
    """Yield the trace with all sizes reduced at once, then with one size reduced."""
    function = function_of(trace)
    for smaller in _SIZES[:2]:
        sizes = {name: min(size, max(function.least, smaller)) for name, size in trace.sizes.items()}
        if sizes != trace.sizes:
            yield replace(trace, sizes=sizes)
    for name, size in trace.sizes.items():
        for smaller in _SIZES:
            if function.least <= smaller < size:
                yield replace(trace, sizes={**trace.sizes, name: smaller})


def _with_plainer_step(trace: Trace, index: int) -> Iterator[Trace]:
    def changed(step: ScheduleStep) -> Trace:
        return trace.with_steps((*trace.steps[:index], step, *trace.steps[index + 1 :]))

    step = trace.steps[index]
    if step.word == "local":
        yield changed(replace(step, word="global"))
    if len(step.loops) > 2:
        for at in range(len(step.loops)):
            yield changed(replace(step, loops=(*step.loops[:at], *step.loops[at + 1 :])))
    if step.word in ("permute", "split", "fuse") or step.primitive in ("software_pipeline", "tensorize"):
        return  # the numbers of a map, of a pipeline and of an intrinsic belong together
    for place, number in enumerate(step.numbers):
        if number is not None and number > 0:
            for smaller in _NUMBERS:
                if smaller < number:
                    numbers = (*step.numbers[:place], smaller, *step.numbers[place + 1 :])
                    yield changed(replace(step, numbers=numbers))
