"""A cause tells of a class of failures: nothing that it asks for is a number or a name of its own witness."""

from __future__ import annotations

import re

import pytest
from onnx import defs

from driftline.causes import Cause, builtin
from driftline.causes.match import INTEGERS

FLOAT_LIMITS = (3.4028234663852886e38, 1.7976931348623157e308, 65504.0, 448.0, 57344.0)
LIMITS = {0.0, 1.0, *FLOAT_LIMITS, *(float(end) for one in INTEGERS.values() for end in (one[0], one[-1]))}
NOT_HERE = {
    "tvm/minimum-of-constants"
}  # only a release that is not installed has it, so that nothing else can be tried
_DECLARED = re.compile(r"\b(?:u?int\d+|float\w*|double|bool)(?:\[[^\]]*\])? (\w+)")


def own_numbers(cause: Cause) -> list[float]:
    """Returns the numbers that a cause asks for and that are neither infinite nor the limit of a type."""
    asked = [float(one) for one in (*cause.got, *cause.expected)]
    return [one for one in asked if abs(one) not in LIMITS and one not in LIMITS and abs(one) < float("inf")]


def own_names(cause: Cause) -> list[str]:
    """Returns the names of the witness's values that the pattern of the message spells out."""
    pattern = re.sub(r"\\\w", "", cause.message)
    names = set(_DECLARED.findall(cause.witness.program))
    return sorted(name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", pattern))


def test_no_cause_asks_for_numbers_of_its_witness() -> None:
    found = {cause.id: numbers for cause in builtin() if (numbers := own_numbers(cause))}
    assert set(found) <= NOT_HERE, "say what the numbers have in common: settings, off_by, needs, narrower, rounded_to"


def test_no_message_names_values_of_its_witness() -> None:
    assert not {cause.id: names for cause in builtin() if (names := own_names(cause))}


def test_numbers_of_a_witness_are_found() -> None:
    from dataclasses import replace

    cause = builtin().get("openvino/lstm-peepholes")
    assert own_numbers(replace(cause, got=(0.47, 255, -2147483648, float("inf")))) == [0.47]
    maxpool = builtin().get("openvino/convolution-over-open-channels")
    assert own_names(replace(maxpool, message=r"Parameter x\[#\]")) == ["x"]


WITH_SETTINGS = [cause for cause in builtin() if cause.settings and "parser" in cause.witness.program]


@pytest.mark.parametrize("cause", WITH_SETTINGS, ids=lambda cause: cause.id)
def test_a_setting_is_one_of_its_operators_in_the_standard(cause: Cause) -> None:
    operators = {part for name in cause.spelled for part in name.split("+")}
    schemas = [one for one in defs.get_all_schemas_with_history() if one.name in operators]
    known = {"rank"} | {name for one in schemas for name in one.attributes}
    known |= {place.name for one in schemas for place in (*one.inputs, *one.outputs)}
    assert {text.partition("=")[0] for text in cause.settings} <= known
