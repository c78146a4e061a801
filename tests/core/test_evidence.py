"""The class of evidence of a failure, and which class may stand for which."""

from __future__ import annotations

from typing import Any

import pytest

from driftline.core.evidence import Evidence, evidence_class
from driftline.core.verdict import Kind


@pytest.mark.parametrize(
    ("kind", "told", "wanted"),
    [
        (Kind.WRONG_VALUE, {"expected": "1.5", "got": "2.0"}, Evidence.FINITE),
        (Kind.WRONG_VALUE, {"expected": "1.5", "got": "-1.5000001"}, Evidence.SIGN),
        (Kind.WRONG_VALUE, {"expected": "1.5", "got": "-2.5"}, Evidence.FINITE),
        (Kind.WRONG_VALUE, {"expected": "1e-40", "got": "0.0", "dtype": "float32"}, Evidence.SUBNORMAL),
        (Kind.WRONG_VALUE, {"expected": "1e-40", "got": "0.0", "dtype": "float64"}, Evidence.FINITE),
        (Kind.WRONG_VALUE, {"expected": "True", "got": "False", "dtype": "bool"}, Evidence.FINITE),
        (Kind.WRONG_VALUE, {"expected": "3", "got": "1", "choice": True}, Evidence.CHOICE),
        (Kind.WRONG_VALUE, {"expected": "1.5", "got": "2.0", "size": 4, "unjudged": 3}, Evidence.ILL_CONDITIONED),
        (Kind.WRONG_NONFINITE, {"expected": "nan", "got": "0.0"}, Evidence.NAN_LOST),
        (Kind.WRONG_NONFINITE, {"expected": "0.0", "got": "nan"}, Evidence.NAN_MADE),
        (Kind.WRONG_NONFINITE, {"expected": "inf", "got": "3e38"}, Evidence.INFINITY),
        (Kind.ERROR, {"failure": None}, Evidence.OTHER),
    ],
)
def test_the_class_of_a_failure(kind: Kind, told: dict[str, Any], wanted: Evidence) -> None:
    assert evidence_class(kind, told) is wanted


def test_what_is_seen_more_clearly_is_the_same_bug_and_not_the_other_way_round() -> None:
    assert all(one.stands_for(one) for one in Evidence)
    assert Evidence.FINITE.stands_for(Evidence.SIGN) and not Evidence.SIGN.stands_for(Evidence.FINITE)
    assert Evidence.CHOICE.stands_for(Evidence.FINITE) and not Evidence.FINITE.stands_for(Evidence.CHOICE)
    assert not Evidence.FINITE.stands_for(Evidence.SUBNORMAL)
    assert not Evidence.NAN_LOST.stands_for(Evidence.NAN_MADE)
