"""Decides whether a wrong result is memory that was never written, by runs that differ only in the content of new
memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from driftline.core.evidence import Evidence, Fault
from driftline.core.execution import Execution, Outcome
from driftline.core.sentences import failing
from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.oracle.judge import Reference

OF_NUMBERS = (Kind.WRONG_VALUE, Kind.WRONG_NONFINITE)


def follows_memory(first: Verdict, reference: Reference, same: Sequence[Execution], other: Execution) -> bool:
    """True if every wrong element is equal in the runs with the same content of new memory, and differs in the run with
    another content."""
    if first.judgement is not Judgement.FAIL or first.kind not in OF_NUMBERS or not first.evidence.worst:
        return False
    numbers = [_wrong_numbers(first.evidence, reference, run) for run in same]
    changed = _wrong_numbers(first.evidence, reference, other)
    alike = bool(changed) and all(one == numbers[0] for one in numbers)
    return alike and all(one != another for one, another in zip(numbers[0], changed, strict=True))


def as_unwritten(verdict: Verdict) -> Verdict:
    """Return the verdict with this fault. Whether such an element is a number or NaN is chance, so the kind is a wrong
    value."""
    found = verdict.evidence
    rest = tuple(fault for fault in found.faults if fault is not Fault.UNINITIALISED)
    return failing(Kind.WRONG_VALUE, replace(found, faults=(Fault.UNINITIALISED, *rest)))


def _wrong_numbers(found: Evidence, reference: Reference, run: Execution) -> list[bytes]:
    """Return the bytes of the wrong elements in a run; an empty list if the run has no such elements."""
    sample = found.sample or 0
    if run.outcome is not Outcome.OK or sample >= min(len(run.outputs), len(reference.samples)):
        return []
    outputs = run.outputs[sample]
    name = _own_name(found.output, outputs, reference.samples[sample].native)
    if not name or any(not _has(outputs, name, one.place) for one in found.worst):
        return []
    return [outputs[name][one.place].tobytes() for one in found.worst]


def _own_name(output: str, outputs: Arrays, native: Arrays) -> str:
    """Return the run's own name for an output of the reference: converters rename outputs but keep their order."""
    if output in outputs:
        return output
    names = [*native]
    return [*outputs][names.index(output)] if output in names and len(names) == len(outputs) else ""


def _has(outputs: Arrays, name: str, place: Sequence[int]) -> bool:
    shape = outputs[name].shape
    return len(shape) == len(place) and all(at < size for at, size in zip(place, shape, strict=True))
