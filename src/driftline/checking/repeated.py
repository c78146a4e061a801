"""Further calls of a compiled program, judged: with other inputs, and once more with the first.

What a single call cannot show: a buffer that still holds the result of the call before, an input that was taken for a
constant. Where a further call fails, the case that shows it has these calls as its samples.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Protocol

from driftline.backends import BACKENDS
from driftline.checking.deployed import fitting
from driftline.checking.reference_sources import is_big
from driftline.core.case import Case, Inputs
from driftline.core.execution import Execution, Outcome
from driftline.core.identity import AFTER_ANOTHER_CALL
from driftline.core.target import Target
from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement, Verdict
from driftline.inputs.other import other_inputs
from driftline.oracle.judge import Reference


@dataclass(frozen=True)
class SeenIn:
    """A case with what it means, where it is not the one that was asked about."""

    case: Case
    reference: Reference


class _Judges(Protocol):
    """What is asked of a `Checker`."""

    def reference(self, case: Case) -> Reference: ...
    def parameters(self, case: Case) -> Collection[str]: ...
    def judge(self, case: Case, target: Target, execution: Execution, reference: Reference) -> Verdict: ...


class RepeatedCalls:
    """The further calls of one check: their inputs, the same for all targets, and what the program means on them, which
    is found out when the first target asks."""

    def __init__(self, checker: _Judges, case: Case, reference: Reference) -> None:
        self._checker = checker
        self._case = case
        self._reference = reference
        self._lock = threading.Lock()
        self._other_reference: Reference | None = None
        self._stateless: bool | None = None  # found out when a further call seems to fail
        self._other = _other(checker, case) if _can_be_called_again(case, reference) else None
        self.inputs: tuple[Inputs, ...] = ()  # of the further calls, in their order
        if _can_be_called_again(case, reference) and case.samples[0].arrays:
            self.inputs = (*([self._other] if self._other else []), case.samples[0])

    def failing(self, target: Target, execution: Execution) -> SeenIn | None:
        """The case that shows what is wrong with the further calls, if anything seems to be."""
        if not self.inputs or execution.outcome is not Outcome.OK or self._keeps_state(target):
            return None
        if execution.repeat_failure:
            return self._whole_case()
        if len(execution.repeated) != len(self.inputs):
            return None
        last = execution.repeated[-1]
        if not _same(last, execution.outputs[0]) and self._fails(target, execution, last, self._case, self._reference):
            return self._whole_case()
        if self._other:
            meant = self._meaning_of_other()
            case = replace(self._case, samples=(self._other,))
            if _is_known(meant) and self._fails(target, execution, execution.repeated[0], case, meant):
                return self._whole_case()
        return None

    def _fails(self, target: Target, execution: Execution, outputs: Arrays, case: Case, reference: Reference) -> bool:
        one = replace(case, samples=case.samples[:1])
        meant = replace(reference, samples=reference.samples[:1])
        verdict = self._checker.judge(one, target, replace(execution, outputs=(outputs,)), meant)
        return verdict.judgement is Judgement.FAIL

    def _keeps_state(self, target: Target) -> bool:
        """Compilers that do not call the user's code do not put back what a program changed either."""
        changes = any(name.startswith("mutated:") for sample in self._reference.samples for name in sample.native)
        return changes and not BACKENDS.get(target.backend).mutates

    def _meaning_of_other(self) -> Reference:
        with self._lock:
            if self._other_reference is None:
                assert self._other
                self._other_reference = self._checker.reference(replace(self._case, samples=(self._other,)))
            return self._other_reference

    def _whole_case(self) -> SeenIn | None:
        """All calls as samples. Where the program does not take the other inputs, without them. `None` if the program
        keeps state in Python from one call to the next, which nothing resets: there the calls differ by themselves."""
        first, meant = self._case.samples, self._reference.samples
        between: tuple[Inputs, ...] = ()
        if self._other and _is_known(found := self._meaning_of_other()):
            between, meant = (self._other,), (*meant, *found.samples)
        repeated = replace(first[0], origin=f"{first[0].origin}, once more")
        program = self._case.program
        program = replace(program, circumstances=(*program.circumstances, AFTER_ANOTHER_CALL))
        case = replace(self._case, program=program, samples=(*first, *between, repeated))
        reference = replace(self._reference, samples=(*meant, self._reference.samples[0]))
        if case.program.framework != "onnx" and not self._means_the_same(case, reference):
            return None
        return SeenIn(case, reference)

    def _means_the_same(self, case: Case, reference: Reference) -> bool:
        """Does the program itself, called so often, return what it returned before?"""
        with self._lock:
            if self._stateless is None:
                again = self._checker.reference(case)
                self._stateless = len(again.samples) == len(reference.samples) and all(
                    _same(one.native, other.native) for one, other in zip(again.samples, reference.samples, strict=True)
                )
            return self._stateless


def _can_be_called_again(case: Case, reference: Reference) -> bool:
    """Calls at several sizes are several programs to some compilers."""
    shapes = {tuple(array.shape for array in sample.arrays.values()) for sample in case.samples}
    return _is_known(reference) and len(shapes) == 1


def _is_known(reference: Reference) -> bool:
    return bool(reference.samples) and not reference.problem and not any(s.failure for s in reference.samples)


def _other(checker: _Judges, case: Case) -> Inputs | None:
    """Inputs for a call between. Several samples are several inputs already, and of a big model the meaning of one is
    dear enough."""
    if len(case.samples) > 1 or is_big(case):
        return None
    given = case.samples[0].arrays
    arrays = other_inputs(case.program.inputs, given, case.options.seed, checker.parameters(case))
    if arrays is None:
        return None
    made = Inputs(arrays, f"{case.samples[0].origin}, reversed")
    return fitting(case.deployed, (made,))[0] if case.deployed else made


def _same(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)
