"""The record of what was measured: faults of elements, JSON, and the sentence that is made of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.core.evidence import Element, Evidence, Fault, InputClass, Number, Region
from driftline.core.faults import fault_of, narrower_than
from driftline.core.sentences import describe
from driftline.core.verdict import Kind

F32_MAX = 3.4028234663852886e38


@pytest.mark.parametrize(
    ("dtype", "expected", "got", "wanted", "narrower"),
    [
        ("float32", 1.5, 2.0, Fault.NUMBER, ""),
        ("float32", 1.5, -1.5000001, Fault.SIGN, ""),
        ("float32", 1.5, -2.5, Fault.NUMBER, ""),
        ("float32", 1e-40, 0.0, Fault.SUBNORMAL, ""),
        ("float64", 1e-40, 0.0, Fault.NUMBER, ""),
        ("bool", True, False, Fault.NUMBER, ""),
        ("float32", math.nan, 0.0, Fault.NAN_LOST, ""),
        ("float32", 0.0, math.nan, Fault.NAN_MADE, ""),
        ("float32", math.inf, 3e38, Fault.INFINITY_LOST, ""),
        ("float32", math.inf, -math.inf, Fault.INFINITY_TURNED, ""),
        ("float64", math.inf, F32_MAX, Fault.INFINITY_LOST, "float32"),
        ("float64", 1e300, F32_MAX, Fault.BEYOND_RANGE, "float32"),
        ("float64", 1e300, 7.0, Fault.NUMBER, ""),
        ("int64", 2**40 + 5, 5, Fault.BEYOND_RANGE, "int32"),
        ("int64", 2**40 + 5, 2**31 - 1, Fault.BEYOND_RANGE, "int32"),
        ("int64", 2**40 + 5, 6, Fault.NUMBER, ""),  # neither wrapped nor clamped: another mistake
        ("int32", 200, -56, Fault.BEYOND_RANGE, "int8"),
        ("uint8", 5, 7, Fault.NUMBER, ""),
    ],
)
def test_the_fault_of_an_element(dtype: str, expected: Number, got: Number, wanted: Fault, narrower: str) -> None:
    one = Element((0,), expected, got)
    assert fault_of(one, dtype) is wanted
    assert narrower_than(one, dtype) == narrower


def test_what_is_seen_more_clearly_is_the_same_bug_and_not_the_other_way_round() -> None:
    assert all(one.stands_for(one) for one in Fault)
    assert Fault.NUMBER.stands_for(Fault.SIGN) and not Fault.SIGN.stands_for(Fault.NUMBER)
    assert Fault.TIES.stands_for(Fault.NUMBER) and not Fault.NUMBER.stands_for(Fault.TIES)
    assert not Fault.NUMBER.stands_for(Fault.SUBNORMAL)
    assert not Fault.NAN_LOST.stands_for(Fault.NAN_MADE)


numbers = st.one_of(st.integers(), st.floats(), st.booleans())
records = st.builds(
    Evidence,
    sample=st.none() | st.integers(0, 9),
    output=st.text(max_size=9),
    elements=st.integers(0),
    worst=st.lists(st.builds(Element, st.tuples(st.integers(0, 9)), numbers, numbers), max_size=3).map(tuple),
    faults=st.lists(st.sampled_from(Fault), max_size=3).map(tuple),
    regions=st.lists(st.sampled_from(Region), max_size=2).map(tuple),
    needs=st.lists(st.sampled_from(InputClass), max_size=2).map(tuple),
    z=st.none() | st.floats(allow_nan=False),
    certain=st.booleans(),
    wanted=st.lists(st.text(max_size=5)).map(tuple),
    policies=st.lists(st.text(max_size=5)).map(tuple),
    totals=st.dictionaries(st.text(max_size=4), st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)), max_size=2),
)


@given(records)
def test_json_holds_the_whole_record(record: Evidence) -> None:
    text = json.dumps(record.to_json(), allow_nan=False)
    assert repr(Evidence.from_json(json.loads(text))) == repr(record)  # NaN does not equal itself


def test_a_key_of_a_newer_release_is_left_out() -> None:
    told = {"output": "y", "faults": ["nan-lost", "tunnelled"], "weather": "fine"}
    assert Evidence.from_json(told) == Evidence(output="y", faults=(Fault.NAN_LOST,))


def test_sentences_are_made_of_the_record() -> None:
    wrong = Evidence(output="0", elements=4, wrong=2, worst=(Element((1,), 7, 9),))
    assert describe(Kind.WRONG_VALUE, wrong) == "output 0: 2 of 4 elements differ; at [1]: expected 7, got 9"
    lost = Evidence(output="y", elements=4, wrong=1, worst=(Element((0,), math.nan, 0.5),))
    assert describe(Kind.WRONG_NONFINITE, lost) == (
        "y: 1 of 4 elements differ in NaN or Inf; at [0]: expected nan, got 0.5"
    )
    died = Evidence(stage="COMPILE", signal="SIGSEGV")
    assert describe(Kind.CRASH, died) == "the process died while compiling: SIGSEGV"
    shape = Evidence(output="y", wanted=("[2, 3]",), came=("[3, 2]",))
    assert describe(Kind.WRONG_SHAPE, shape) == "y has shape [3, 2], expected [2, 3]"


def test_the_sentence_about_rounding_names_the_reference() -> None:
    found = Evidence(
        output="y",
        sigma=0.5,
        error=10.0,
        native_z=0.25,
        worst_case=9.0,
        certain=True,
        worst=(Element((2,), 1.0, 11.0),),
    )
    told = "y: at [2]: expected 1, got 11: legal rounding moves this element by 0.5;"
    told += " the compiler moved it by 20 times that"
    beyond = " (beyond even the worst-case bound of rounding), the reference"
    assert describe(Kind.WRONG_VALUE, found) == f"{told}{beyond} by 0.25 times"
    named = replace(found, native_by="the player")
    assert describe(Kind.WRONG_VALUE, named) == f"{told}{beyond} (the player) by 0.25 times"
