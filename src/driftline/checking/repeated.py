"""Judges further calls of a compiled program: with other values, with the first values again, and with inputs of
another size if the compiler compiles again for these.

They show faults that a single call cannot: a buffer that still holds the result of the call before, or an input or size
treated as a constant. If a further call fails, the case that shows the failure has these calls as its samples, or only
the inputs of that call if the program is wrong on them without a call before.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from driftline.backends import BACKENDS
from driftline.checking.aspects import MOST_CALLS, Aspect
from driftline.checking.deployed import fitting
from driftline.checking.reference_sources import is_big
from driftline.core.case import Case, Inputs
from driftline.core.execution import Execution, Outcome
from driftline.core.identity import AFTER_ANOTHER_CALL
from driftline.core.target import Target
from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement, Verdict
from driftline.inputs.other import other_inputs
from driftline.inputs.resized import one_more_row
from driftline.oracle.judge import Reference

# For larger torch programs, the reference on further inputs takes too long.
MOST_WEIGHTS = 64 << 20  # bytes
_MOST_ELEMENTS = 1 << 20  # of all inputs


@dataclass(frozen=True)
class SeenIn:
    """The case and reference that show a failure, if that is not the original case. `words` describe the difference,
    and precede the reason of the failure."""

    case: Case
    reference: Reference
    words: str = ""
    aspect: Aspect = Aspect.OUTPUTS  # the aspect compared in this case


class Judges(Protocol):
    """The methods of `Checker` that this module uses."""

    def reference(self, case: Case) -> Reference: ...
    def parameters(self, case: Case) -> Collection[str]: ...
    def judge(self, case: Case, target: Target, execution: Execution, reference: Reference) -> Verdict: ...


@dataclass(frozen=True)
class _Call:
    """One further call, and the reference on its inputs."""

    aspect: Aspect
    inputs: Inputs
    meaning: Reference
    words: str = ""  # how its inputs differ from the first ones


@dataclass(frozen=True)
class FurtherInputs:
    """The inputs of further calls: those of the first call's size, and those of another size, which are not used for
    programs that take long to compile."""

    same_size: tuple[Inputs, ...] = ()
    resized: Inputs | None = None


NO_FURTHER_INPUTS = FurtherInputs()


@dataclass(frozen=True)
class Looked:
    """The result of one target's further calls."""

    compared: tuple[Aspect, ...] = ()
    suspects: tuple[SeenIn, ...] = ()  # cases that may show a failure, in the order in which to examine them


class RepeatedCalls:
    """The further calls of one check. Their inputs are shared by all targets; the reference on them is computed when
    the first target needs it. `calls` is that of `Extent`."""

    def __init__(self, checker: Judges, case: Case, reference: Reference, calls: int) -> None:
        self._checker = checker
        self._case = case
        self._reference = reference
        self._lock = threading.Lock()
        self._stateless: dict[bool, bool] = {}  # by whether the size changes; computed when a further call fails
        self._meaning_of_other: Reference | None = None
        self._resized: _Call | None = None
        self._tried_sizes = calls < MOST_CALLS or not _takes_other_sizes(case)
        self._other: Inputs | None = None
        self._can = calls > 1 and _can_be_called_again(case, reference) and bool(case.samples[0].arrays)
        if self._can:
            self._other = _other(checker, case)

    def inputs(self, target: Target) -> FurtherInputs:
        """Return the inputs of the further calls of a target, in order."""
        if not self._can:
            return NO_FURTHER_INPUTS
        other = [self._other] if self._other else []
        resized = self._with_other_size(target)
        return FurtherInputs((*other, self._case.samples[0]), resized.inputs if resized else None)

    @property
    def other_size(self) -> str:
        """How the inputs of another size differ from the first ones; an empty string if there are none."""
        return self._resized.words if self._resized else ""

    def look(self, target: Target, execution: Execution) -> Looked:
        """Judge the further calls of a target."""
        if not self._can or execution.outcome is not Outcome.OK or self._keeps_state(target):
            return Looked()
        made, given = len(execution.repeated), self.inputs(target)
        if execution.repeat_failure:  # in the call after the finished ones, or in any call if the process ended
            failed = list(self._calls(target))[made:]
            return Looked(suspects=tuple(self._cases(failed)))
        if made < len(given.same_size):
            return Looked()
        told = [
            (call, self._judged(target, execution, call, outputs))
            for call, outputs in zip(self._calls(target), execution.repeated, strict=False)
        ]
        return Looked(
            tuple(call.aspect for call, judgement in told if judgement is Judgement.PASS),
            tuple(self._cases([call for call, judgement in told if judgement is Judgement.FAIL])),
        )

    def _calls(self, target: Target) -> Iterator[_Call]:
        """Yield the calls whose inputs a target was given, in the same order."""
        if self._other:
            yield _Call(Aspect.OTHER_VALUES, self._other, self._other_meaning(self._other))
        yield _Call(Aspect.FIRST_VALUES, self._case.samples[0], self._reference)
        resized = self._with_other_size(target)
        if resized:
            yield resized

    def _judged(self, target: Target, execution: Execution, call: _Call, outputs: Arrays) -> Judgement:
        if call.aspect is Aspect.FIRST_VALUES and _same(outputs, execution.outputs[0]):
            return Judgement.PASS
        if not is_known(call.meaning):
            return Judgement.INCONCLUSIVE
        one = replace(self._case, samples=(call.inputs,))
        meant = replace(call.meaning, samples=call.meaning.samples[:1])
        return self._checker.judge(one, target, replace(execution, outputs=(outputs,)), meant).judgement

    def _keeps_state(self, target: Target) -> bool:
        """True if the program changes state that the target does not restore: compilers that do not call the user's
        code do not."""
        changes = any(name.startswith("mutated:") for sample in self._reference.samples for name in sample.native)
        return changes and not BACKENDS.get(target.backend).mutates

    def _other_meaning(self, other: Inputs) -> Reference:
        with self._lock:
            if self._meaning_of_other is None:
                self._meaning_of_other = self._checker.reference(replace(self._case, samples=(other,)))
            return self._meaning_of_other

    def _with_other_size(self, target: Target) -> _Call | None:
        """Return the call with inputs of another size, or None if the compiler does not compile again for these or the
        program rejects them. The unoptimised run tests this once."""
        if not self._can or not BACKENDS.get(target.backend).recompiles:
            return None
        with self._lock:
            if not self._tried_sizes:
                self._tried_sizes = True
                self._resized = next(self._taken_sizes(), None)
            return self._resized

    def _taken_sizes(self) -> Iterator[_Call]:
        first = self._case.samples[0]
        for arrays, words in one_more_row(first.arrays):
            inputs = Inputs(arrays, f"{first.origin}, {words}")
            meaning = self._checker.reference(replace(self._case, samples=(inputs,)))
            if is_known(meaning):
                yield _Call(Aspect.OTHER_SIZE, inputs, meaning, words)

    # -- the cases that show a failure -------------------------------------------------------------------------------

    def _cases(self, failing: list[_Call]) -> Iterator[SeenIn]:
        """Yield, for each failing call, the case with its inputs alone, which is simpler, and then the case after the
        first call."""
        together = False
        for call in failing:
            if call.aspect is not Aspect.FIRST_VALUES and is_known(call.meaning):
                words = f"with {call.words or call.aspect}"
                yield SeenIn(replace(self._case, samples=(call.inputs,)), call.meaning, words, call.aspect)
            if call.aspect is Aspect.OTHER_SIZE:
                yield from self._at_both_sizes(call)
            elif not together:
                together = True
                yield from self._one_after_the_other()

    def _one_after_the_other(self) -> Iterator[SeenIn]:
        """Yield the case with all calls of one size as samples; other values are left out if the program rejects
        them."""
        first = self._case.samples
        between: list[tuple[Inputs, Reference]] = []
        if self._other and is_known(found := self._other_meaning(self._other)):
            between = [(self._other, found)]
        repeated = replace(first[0], origin=f"{first[0].origin}, once more")
        yield from self._after_another([*between, (repeated, self._reference)])

    def _at_both_sizes(self, call: _Call) -> Iterator[SeenIn]:
        yield from self._after_another([(call.inputs, call.meaning)], call.words)

    def _after_another(self, calls: list[tuple[Inputs, Reference]], size: str = "") -> Iterator[SeenIn]:
        """Yield the case whose samples are the first ones and these. There is none if the program keeps Python state
        between calls that nothing resets, since its calls differ anyway."""
        program = self._case.program
        program = replace(program, circumstances=(*program.circumstances, AFTER_ANOTHER_CALL))
        samples = (*self._case.samples, *(inputs for inputs, _ in calls))
        meant = (*self._reference.samples, *(meaning.samples[0] for _, meaning in calls))
        case = replace(self._case, program=program, samples=samples)
        reference = replace(self._reference, samples=meant)
        if case.program.framework == "onnx" or self._means_the_same(case, reference, bool(size)):
            words = "when it is called again" + (f" with {size}" if size else "")
            yield SeenIn(case, reference, words, Aspect.OTHER_SIZE if size else Aspect.OTHER_VALUES)

    def _means_the_same(self, case: Case, reference: Reference, resized: bool) -> bool:
        """True if the program itself, called so often, returns the same results as before."""
        with self._lock:
            if resized not in self._stateless:
                again = self._checker.reference(case)
                self._stateless[resized] = len(again.samples) == len(reference.samples) and all(
                    _same(one.native, other.native) for one, other in zip(again.samples, reference.samples, strict=True)
                )
            return self._stateless[resized]


def _can_be_called_again(case: Case, reference: Reference) -> bool:
    """True if the case can be called again: its reference is known and all samples have one size. Several sizes are
    several programs to some compilers."""
    shapes = {tuple(array.shape for array in sample.arrays.values()) for sample in case.samples}
    return is_known(reference) and len(shapes) == 1


def _takes_other_sizes(case: Case) -> bool:
    """True if the program may be tried with inputs of another size. A case with several samples defines its own
    sizes."""
    return len(case.samples) == 1 and case.deployed is None and not _takes_long(case)


def is_known(reference: Reference) -> bool:
    """True if the program has a result on each sample."""
    return bool(reference.samples) and not reference.problem and not any(s.failure for s in reference.samples)


def _takes_long(case: Case) -> bool:
    """True if the reference on further inputs would take too long."""
    if case.program.framework != "torch":
        return is_big(case)
    elements = sum(array.size for sample in case.samples for array in sample.arrays.values())
    return case.program.weights > MOST_WEIGHTS or elements > _MOST_ELEMENTS


def _other(checker: Judges, case: Case) -> Inputs | None:
    """Return inputs for a call with other values, or None. Several samples already are several inputs."""
    if len(case.samples) > 1 or _takes_long(case):
        return None
    given = case.samples[0].arrays
    arrays = other_inputs(case.program.inputs, given, case.options.seed, checker.parameters(case))
    if arrays is None:
        return None
    made = Inputs(arrays, f"{case.samples[0].origin}, reversed")
    return fitting(case.deployed, (made,))[0] if case.deployed else made


def _same(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)
