"""In which group a wrong result is listed: it is on ordinary values unless something special is needed for it."""

from __future__ import annotations

import pytest

from driftline.core.evidence import Evidence, Fault, InputClass
from driftline.core.severity import SEVERITIES, is_on_ordinary_values, severity
from driftline.core.verdict import Kind


@pytest.mark.parametrize(
    ("found", "plain", "ordinary"),
    [
        (Evidence(faults=(Fault.NUMBER,)), True, True),
        (Evidence(faults=(Fault.NUMBER,), needs=(InputClass.ZERO, InputClass.NEGATIVE)), True, True),
        (Evidence(faults=(Fault.NUMBER,), needs=(InputClass.LARGE,)), True, False),
        (Evidence(faults=(Fault.SUBNORMAL,)), True, False),
        (Evidence(faults=(Fault.BEYOND_RANGE,)), True, False),
        (Evidence(faults=(Fault.NUMBER,)), False, False),
    ],
)
def test_a_failure_that_needs_special_values_is_not_on_ordinary_ones(
    found: Evidence, plain: bool, ordinary: bool
) -> None:
    assert is_on_ordinary_values(found, plain_inputs=plain) is ordinary
    name = SEVERITIES[severity(Kind.WRONG_VALUE, is_on_ordinary_values(found, plain_inputs=plain))]
    assert name == ("Wrong results on ordinary values" if ordinary else "Wrong results on special values")
