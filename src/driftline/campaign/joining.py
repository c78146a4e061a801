"""The same failure of one compiler on the torch and on the ONNX spelling of the same operators is one bug.

Fingerprints name operators as the program's framework does. Within a store, a failure that is known from a program of
another framework, with the same operators and dtypes, goes by the name that it has there.
"""

from __future__ import annotations

from driftline.core.case import Case
from driftline.core.program import Program
from driftline.core.verdict import Fingerprint, Kind
from driftline.diagnose.spelling import spelled_alike
from driftline.report.gather import operators_of
from driftline.store import Store

# Kinds whose fingerprint names the operators. Errors go by their message.
_BY_OPERATORS = (
    Kind.WRONG_VALUE, Kind.BIAS, Kind.WRONG_NONFINITE, Kind.WRONG_DTYPE, Kind.WRONG_SHAPE, Kind.WRONG_STRUCTURE,
    Kind.WRONG_ZERO_SIGN,
)  # fmt: skip
_UNNAMED = "program "  # how the detail of a program begins whose operators are not listed


def known_as(store: Store, case: Case, found: Fingerprint) -> Fingerprint:
    """The fingerprint under which the store knows this failure; its own, if it is new."""
    mine = spelled_alike(operators_of(case.runs))
    if not mine or case.options.grad or found.kind not in _BY_OPERATORS or store.has_bug(found.bug_id):
        return found
    for bug in store.bugs():
        known = bug.fingerprint
        if (known.backend, known.stage, known.kind) != (found.backend, found.stage, found.kind):
            continue
        if not known.detail.startswith(_UNNAMED) and spelled_alike(known.detail.split("+")) != mine:
            continue
        if any(_same_in_other_words(store, finding.case_id, case.runs) for finding in store.bug(bug.id).findings):
            return known
    return found


def _same_in_other_words(store: Store, case_id: str, program: Program) -> bool:
    """Is the stored case a program of another framework with the same operators, on inputs of the same dtypes?"""
    other = store.load_case(case_id).runs
    return (
        other.framework != program.framework
        and spelled_alike(operators_of(other)) == spelled_alike(operators_of(program))
        and {spec.dtype for spec in other.inputs} == {spec.dtype for spec in program.inputs}
    )
