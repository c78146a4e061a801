"""Run tapped programs: the reference and the target return the same intermediate values, which are compared.

The caller bounds the memory by the number of values in one run. Tapped files are removed after the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driftline.backends import BACKENDS
from driftline.checking.checker import Checker, declared_arithmetic
from driftline.core.case import Case
from driftline.core.execution import Execution, Outcome
from driftline.core.target import Target
from driftline.core.tensors import Array, Arrays, numpy_dtype
from driftline.diagnose.layers.inside import Inside, NoView
from driftline.diagnose.layers.match import Pair
from driftline.diagnose.layers.measure import Errors, measure_all
from driftline.oracle.judge import Reference


@dataclass(frozen=True)
class Seen:
    """The result of one run: the errors of the pairs in order, and what else the target returned."""

    errors: list[Errors]
    shapes: list[tuple[int, ...]]  # of the pairs, in this run
    results: list[Array]  # the program's own, as the target computed them with taps
    of_results: list[Errors]  # filled if the results of the reference were requested too


class Tapping:
    """Runs both sides of a comparison with one target. `quanta`: quantised values may come out some quanta off."""

    def __init__(
        self, checker: Checker, inside: Inside, running: Inside, target: Target, *, quanta: bool = False
    ) -> None:
        self._checker = checker
        self._inside, self._running = inside, running
        self.target = target
        self._quanta = quanta
        self.arithmetic = declared_arithmetic(BACKENDS.get(target.backend), target)

    def look(self, pairs: Sequence[Pair], cuts: Mapping[Pair, Array] | None = None, *, results: bool = False) -> Seen:
        """Run both sides with the values of the pairs as outputs. Raise `NoView` if either side does not run that
        way.
        """
        cuts = cuts or {}
        mine = self._inside.tapped(
            [pair.tap.value for pair in pairs], {p.tap.value: value for p, value in cuts.items()}, returned=results
        )
        runs = self._running.tapped(
            [pair.run.value for pair in pairs],
            {p.run.value: value.astype(numpy_dtype(p.run.dtype)) for p, value in cuts.items()},
            returned=True,
        )
        try:
            got = self._outputs(runs)
            reference = self._reference(mine)
            sample = reference.samples[0]
            native = _own(sample.native)
            wanted = min(len(native), len(got))
            if len(got) < len(pairs) or len(native) < len(pairs):
                raise NoView(f"{self.target} returned {len(got)} of {len(pairs)} values")
            keys = list(native)[:wanted] if results else list(native)[: len(pairs)]
            given = dict(zip(keys, got, strict=False))
            wanted_values = {key: native[key] for key in keys}
            found = measure_all(given, wanted_values, sample.shadow, self.arithmetic, quanta=self._quanta)
            errors = [found[key] for key in keys]
            shapes = [native[key].shape for key in keys[: len(pairs)]]
            return Seen(errors[: len(pairs)], shapes, got[len(pairs) :], errors[len(pairs) :])
        finally:
            self._checker.forget(runs, self.target)
            for case in (mine, runs):
                case.program.path.unlink(missing_ok=True)

    def values(self, pairs: Sequence[Pair]) -> dict[Pair, Array]:
        """Return the values of the reference for the pairs."""
        case = self._inside.tapped([pair.tap.value for pair in pairs], {}, returned=False)
        try:
            native = _own(self._reference(case).samples[0].native)
        finally:
            case.program.path.unlink(missing_ok=True)
        return dict(zip(pairs, native.values(), strict=True))

    def _outputs(self, case: Case) -> list[Array]:
        execution: Execution = self._checker.execute(case, self.target)
        if execution.outcome is not Outcome.OK or execution.problem:
            said = execution.problem or str(execution.failure or execution.outcome)
            raise NoView(f"with values inside laid open {self.target} does not run: {said}")
        return list(_own(execution.outputs[0]).values())

    def _reference(self, case: Case) -> Reference:
        reference = self._checker.reference(case)
        problem = reference.problem or next((str(s.failure) for s in reference.samples if s.failure), "")
        if problem or not reference.samples:
            raise NoView(f"the reference does not run with values inside laid open: {problem}")
        return reference


def _own(outputs: Arrays) -> Arrays:
    """Remove changed inputs and gradients from the outputs."""
    return {name: array for name, array in outputs.items() if not name.startswith(("mutated:", "grad:"))}
