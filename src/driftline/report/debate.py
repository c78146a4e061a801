"""Rules that mark a bug as debatable for every compiler, independent of its cause."""

from __future__ import annotations

import numpy as np

from driftline.core.evidence import Evidence, Fault, InputClass
from driftline.core.tensors import is_float
from driftline.core.titles import TitleFacts
from driftline.report.titles import facts_in, smallest_of
from driftline.store import Bug

SUBNORMAL = "subnormal numbers only, which many processors and compilers take for zero"
TINY_ERROR = "the error is smaller than the smallest normal number, where processors round otherwise"
SIGN_OF_ZERO = "only the sign of a zero between two operators differs, which turns an infinity"


def debate_of(bug: Bug) -> str:
    """Return the reason why a bug is debatable by rules of this module, or an empty string."""
    if not bug.findings:
        return ""
    finding = bug.findings[0]
    smallest = smallest_of(finding)
    facts = smallest.facts if smallest else facts_in(finding.verdict)
    found = smallest.evidence if smallest else finding.evidence
    if _is_about_subnormals(found, facts):
        return SUBNORMAL
    if _is_tiny(found):
        return TINY_ERROR
    return SIGN_OF_ZERO if _rests_on_the_sign_of_a_zero(found, facts) else ""


def _is_about_subnormals(found: Evidence, facts: TitleFacts | None) -> bool:
    """True if the wrong results, or the inputs of the wrong element, are subnormal, as in `Div(0, 1e-45)`."""
    if found.fault is Fault.SUBNORMAL or InputClass.SUBNORMAL in found.needs:
        return True
    given = facts.given if facts else ()
    floats = [name for name in facts.dtypes if is_float(name)] if facts else []
    return any(_is_subnormal(text, floats[0]) for text in given) if floats else False


def _is_tiny(found: Evidence) -> bool:
    """True if every wrong number is off by less than the smallest normal number, as in `tanh(1.1754944e-38)`."""
    if not found.worst or not is_float(found.dtype) or found.wrong_nonfinite:
        return False
    return all(0 < abs(one.expected - one.got) < _smallest_normal(found.dtype) for one in found.worst)


def _rests_on_the_sign_of_a_zero(found: Evidence, facts: TitleFacts | None) -> bool:
    """True if one operator computes a zero and another turns its sign into that of an infinity, as in `1 / (x + 0)`.

    With a single operator the sign of the infinity is that operator's own error, as in `Pow(-0.0, -2)`.
    """
    only_turned = set(found.faults) == {Fault.INFINITY_TURNED} and InputClass.ZERO in found.needs
    return only_turned and facts is not None and len(facts.operators) > 1


def _is_subnormal(text: str, dtype: str) -> bool:
    return 0 < abs(float(text)) < _smallest_normal(dtype)


def _smallest_normal(dtype: str) -> float:
    of = np.dtype(dtype) if dtype in ("float64", "float16") else np.dtype(np.float32)  # bfloat16 has its exponents
    return float(np.finfo(of).tiny)
