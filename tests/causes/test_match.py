"""Does a cause explain a failure: strictly, and never more when it asks for more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driftline.causes import Cause, Experiment, Library, Question, Sighting, Witness, explains, may_explain, mismatch
from driftline.core.evidence import Element, Evidence, Fault, InputClass, Region

WITNESS = Witness("openvino", "def program(): ...\n")
PLAIN = Cause("openvino/plain", "anything", "openvino", ("wrong-value", "error"), WITNESS)


def _some(*values: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.sampled_from(values), unique=True, max_size=3).map(tuple)


QUESTIONS = (Question("with", "opt=off"), Question("in", "float32"), Question("without", "nan"))
evidence = st.builds(
    Evidence,
    faults=_some(*Fault),
    regions=_some(*Region),
    narrower=st.sampled_from(("", "int32", "float32")),
    needs=_some(*InputClass),
    policies=_some("tf32", "half-accumulation"),
    worst=_some(Element((0,), 5, 700), Element((1,), 5, 0), Element((2,), float("nan"), 0.0)),
    exception=st.sampled_from(("", "ValueError")),
    message=st.sampled_from(("", "no kernel for DTYPE")),
    signal=st.sampled_from(("", "SIGSEGV")),
)
sightings = st.builds(
    Sighting,
    backend=st.sampled_from(("openvino", "tvm")),
    kind=st.sampled_from(("wrong-value", "error")),
    evidence=evidence,
    version=st.sampled_from(("", "2026.1.0", "2026.4.1")),
    machine=st.sampled_from(("aarch64", "x86_64")),
    stage=st.sampled_from(("COMPILE", "RUN")),
    operators=_some("abs", "matmul", "constant").map(frozenset),
    dtypes=_some("int64", "float32").map(frozenset),
    empty=st.booleans(),
    later_call=st.booleans(),
    options=st.sampled_from(({}, {"opt": "all"})),
    answers=st.dictionaries(st.sampled_from(QUESTIONS), st.booleans()),
)
conditions = st.fixed_dictionaries(
    {},
    optional={
        "fixed": st.just("2026.2.0"),
        "machines": st.just(("aarch64",)),
        "stages": st.just(("RUN",)),
        "operators": st.sampled_from(((frozenset({"abs"}),), (frozenset({"abs", "matmul"}),))),
        "dtypes": st.just(("int64",)),
        "faults": _some(*Fault),
        "narrower": st.just("int32"),
        "rounded_to": st.just("float32"),
        "off_by": st.sampled_from(((0, 10), (600, 700))),
        "empty": st.just(True),
        "later_call": st.just(True),
        "regions": _some(*Region),
        "got": st.sampled_from(((0,), (0, 700), (float("nan"),))),
        "expected": st.just((5,)),
        "needs": _some(InputClass.NAN),
        "policies": st.just(("tf32",)),
        "exception": st.just("ValueError"),
        "message": st.just("no kernel"),
        "signal": st.just("SIGSEGV"),
        "options": st.just((("opt", "all"),)),
        "experiment": st.sampled_from((Experiment("opt=off"), Experiment(passes_in="float32"))),
    },
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(sightings, conditions, conditions)
def test_a_cause_that_asks_for_more_never_explains_more(
    seen: Sighting, asked: dict[str, Any], more: dict[str, Any]
) -> None:
    wide = replace(PLAIN, **asked)
    narrow = replace(wide, **{key: value for key, value in more.items() if key not in asked})
    assert explains(wide, seen) or not explains(narrow, seen)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(sightings, conditions)
def test_what_does_not_hold_is_named_and_what_holds_might(seen: Sighting, asked: dict[str, Any]) -> None:
    cause = replace(PLAIN, **asked)
    assert explains(cause, seen) == (mismatch(cause, seen) == "")
    assert may_explain(cause, seen) or not explains(cause, seen)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    sightings,
    _some(*InputClass),
    st.builds(Experiment, st.sampled_from(("", "opt=off")), st.sampled_from(("", "float32"))),
)
def test_a_cause_explains_a_case_once_every_question_is_answered_with_yes(
    seen: Sighting, needs: tuple[InputClass, ...], experiment: Experiment
) -> None:
    cause = replace(PLAIN, needs=needs, experiment=experiment)
    seen = replace(seen, backend="openvino", answers={})
    questions = Library((cause,)).questions(seen)
    assert may_explain(cause, seen)
    assert explains(cause, replace(seen, answers=dict.fromkeys(questions, True)))
    for question in questions:
        answers = {**dict.fromkeys(questions, True), question: False}
        assert not may_explain(cause, replace(seen, answers=answers))


NARROWED = replace(
    PLAIN,
    kinds=("wrong-value",),
    fixed="2026.10",
    machines=("aarch64",),
    stages=("RUN",),
    operators=(frozenset({"abs"}), frozenset({"neg"})),
    dtypes=("int64",),
    faults=(Fault.BEYOND_RANGE,),
    narrower="int32",
    regions=(Region.TAIL,),
    got=(0, 2147483647),
    needs=(InputClass.LARGE,),
    policies=("tf32",),
    options=(("opt", "all"),),
    experiment=Experiment("opt=off"),
)
FOUND = Evidence(
    faults=(Fault.BEYOND_RANGE,),
    narrower="int32",
    regions=(Region.TAIL, Region.SLICES),
    worst=(Element((3,), 2**40, 0),),
    policies=("tf32",),
)
SEEN = Sighting(
    "openvino",
    "wrong-value",
    FOUND,
    "2026.4.1",
    "aarch64",
    "RUN",
    frozenset({"abs", "constant"}),
    frozenset({"int64", "float32"}),
    {"opt": "all"},
    {Question("with", "opt=off"): True, Question("without", "large"): True},
)


def test_all_conditions_at_once() -> None:
    assert mismatch(NARROWED, SEEN) == ""


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"backend": "tvm"}, "compiler"),
        ({"version": "2026.10.0"}, "fixed"),
        ({"version": ""}, "fixed"),
        ({"machine": "x86_64"}, "machines"),
        ({"stage": "COMPILE"}, "stages"),
        ({"kind": "bias"}, "kinds"),
        ({"operators": frozenset({"abs", "matmul"})}, "operators"),
        ({"operators": frozenset()}, "operators"),
        ({"dtypes": frozenset({"float32"})}, "dtypes"),
        ({"options": {}}, "option"),
        ({"answers": {Question("without", "large"): True}}, "not tried"),
        ({"answers": {**SEEN.answers, Question("with", "opt=off"): False}}, "it does not"),
        ({"evidence": replace(FOUND, faults=(Fault.BEYOND_RANGE, Fault.NUMBER))}, "faults"),
        ({"evidence": replace(FOUND, faults=())}, "faults"),
        ({"evidence": replace(FOUND, narrower="int8")}, "narrower"),
        ({"evidence": replace(FOUND, regions=(Region.ALL,))}, "regions"),
        ({"evidence": replace(FOUND, worst=(*FOUND.worst, Element((4,), 5, 700)))}, "got"),
        ({"evidence": replace(FOUND, policies=("tf32", "fast-exp"))}, "policies"),
    ],
)
def test_one_condition_that_does_not_hold_is_enough(changed: dict[str, Any], named: str) -> None:
    assert named in mismatch(NARROWED, replace(SEEN, **changed))


def test_operators_that_belong_together() -> None:
    cause = replace(PLAIN, operators=(frozenset({"reshape", "matmul"}), frozenset({"gemm"})))
    holds = [
        explains(cause, Sighting("openvino", "error", Evidence(), operators=frozenset(names.split())))
        for names in ("matmul", "reshape matmul", "gemm", "reshape matmul gemm", "reshape gemm")
    ]
    assert holds == [False, True, True, True, False]


def test_an_error_is_known_by_the_words_of_the_compiler() -> None:
    cause = replace(PLAIN, exception="ValueError", message="no kernel for DTYPE")
    seen = Sighting("openvino", "error", Evidence(exception="ValueError", message="there is no kernel for DTYPE"))
    assert explains(cause, seen)
    assert not explains(cause, replace(seen, evidence=replace(seen.evidence, message="no such file")))
    assert not explains(cause, replace(seen, evidence=replace(seen.evidence, exception="RuntimeError")))


def _worst(*pairs: tuple[float, float]) -> Sighting:
    found = Evidence(worst=tuple(Element((at,), *pair) for at, pair in enumerate(pairs)))
    return Sighting("openvino", "wrong-value", found)


def test_integers_that_went_through_a_float_type() -> None:
    cause = replace(PLAIN, rounded_to="float32")
    assert explains(cause, _worst((-1461433027, -1461433088), (16777217, 16777216)))
    assert explains(cause, _worst((16777217, 16777218))), "rounded to the other side"
    for wrong in ((16777217, 16777215), (3, 4), (16777216, 16777217), (16777217, 0), (0.5, 1.0), (True, False)):
        assert not explains(cause, _worst((16777217, 16777216), wrong)), wrong
    assert not explains(cause, _worst())


def test_how_far_off_every_element_is() -> None:
    cause = replace(PLAIN, off_by=(3.9e-4, 4.0e-4))
    assert explains(cause, _worst((0.6931471805599453, 0.6935442090034485), (2e-09, 0.0003970285)))
    for wrong in ((1.0, 1.1), (1.0, 1.0001), (float("nan"), 1.0), (float("inf"), 1.0)):
        assert not explains(cause, _worst((2e-09, 0.0003970285), wrong)), wrong
    assert not explains(cause, _worst())


def test_a_cause_of_later_calls_leaves_what_is_wrong_in_the_first() -> None:
    cause = replace(PLAIN, later_call=True)
    seen = _worst((1, 0))
    assert "later_call" in mismatch(cause, seen)
    assert explains(cause, replace(seen, later_call=True))


def test_integers_computed_in_a_narrower_type_that_are_neither_clamped_nor_wrapped() -> None:
    cause = replace(PLAIN, narrower="int32")
    assert explains(cause, _worst((3872985619, 421981677)))
    for wrong in ((3872985619, 3872985618), (5, 7), (3872985619, 0.5), (3872985619, float("nan"))):
        assert not explains(cause, _worst((3872985619, 421981677), wrong)), wrong


def test_settings_of_operators_must_all_be_there() -> None:
    cause = replace(PLAIN, settings=("ceil_mode=1", "rank=5"))
    seen = replace(_worst((1, 0)), settings=frozenset({"ceil_mode", "ceil_mode=1", "rank=5"}))
    assert explains(cause, seen)
    assert "settings ceil_mode=1" in mismatch(cause, replace(seen, settings=frozenset({"ceil_mode=1"})))
    assert not explains(cause, replace(seen, settings=frozenset()))


def test_integer_twins_of_generated_programs_are_the_plain_operator() -> None:
    cause = replace(PLAIN, operators=(frozenset({"pow"}),))
    for operators in ({"pow"}, {"intpow"}, {"intpow", "constant"}):
        assert explains(cause, replace(_worst((1, 0)), operators=frozenset(operators)))
    assert not explains(cause, replace(_worst((1, 0)), operators=frozenset({"intfmod"})))


def test_a_cause_of_nothing_asks_for_an_empty_input() -> None:
    cause = replace(PLAIN, empty=True)
    seen = _worst((1, 0))
    assert "empty" in mismatch(cause, seen)
    assert explains(cause, replace(seen, empty=True))
