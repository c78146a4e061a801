"""Titles say what is wrong in one line, with the smallest numbers that tell it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from driftline.core.evidence import Element, Evidence, Fault, InputClass
from driftline.core.faults import faults_of
from driftline.core.identity import AFTER_ANOTHER_CALL, WITH_GRADIENT
from driftline.core.short_numbers import short_pair, telling_element
from driftline.core.titles import TitleFacts, named, title
from driftline.core.verdict import Kind

NAN, INF = math.nan, math.inf


def wrong(*pairs: tuple[float, float], fault: Fault = Fault.NUMBER, output: str = "y") -> Evidence:
    worst = tuple(Element((at,), *pair) for at, pair in enumerate(pairs))
    return Evidence(output=output, elements=9, wrong=len(pairs), worst=worst, faults=(fault,))


def said(kind: Kind, found: Evidence, *operators: str, stage: str = "RUN", **facts: tuple[str, ...]) -> str:
    return title(kind, stage, found, TitleFacts(operators=operators or ("Relu",), **facts))


@pytest.mark.parametrize(
    ("fault", "numbers", "operators", "facts", "expected"),
    [
        (Fault.NUMBER, (-6.2, -3.1), ("dropout", "add_"), {}, "dropout → add_: -3.1 where -6.2 is right"),
        (Fault.NUMBER, (8, 7), ("Pow",), {"given": ("2", "3"), "dtypes": ("int32",)},
         "Pow(2, 3) of int32 returns 7 where 8 is right"),
        (Fault.NAN_LOST, (NAN, INF), ("exp",), {"given": ("NaN",)}, "exp(NaN) returns inf"),
        (Fault.NAN_LOST, (NAN, 3.0), ("ReduceMax",), {}, "ReduceMax loses NaN: 3 where NaN is right"),
        (Fault.NAN_MADE, (0.5, NAN), ("Softmax",), {}, "Softmax: NaN where 0.5 is right"),
        (Fault.INFINITY_LOST, (-INF, -3.4e38), ("MaxPool",), {},
         "MaxPool loses an infinity: -3.4e+38 where -inf is right"),
        (Fault.TIES, (1, 3), ("ArgMax",), {}, "ArgMax chooses wrongly: 3 where 1 is right"),
        (Fault.UNINITIALISED, (0, 3.0), ("MatMul",), {}, "MatMul returns uninitialised memory where 0 is right"),
        (Fault.NUMBER, (1.0, 2.0), ("cumsum",), {"circumstances": (AFTER_ANOTHER_CALL,)},
         "cumsum in a later call: 2 where 1 is right"),
        (Fault.NUMBER, (1.0, 2.0), ("sin",), {"circumstances": (WITH_GRADIENT, "under vmap")},
         "sin with gradient under vmap: 2 where 1 is right"),
    ],
)  # fmt: skip
def test_title_of_wrong_numbers(
    fault: Fault, numbers: tuple[float, float], operators: tuple[str, ...], facts: dict[str, tuple[str, ...]],
    expected: str,
) -> None:  # fmt: skip
    kind = Kind.WRONG_NONFINITE if not all(map(math.isfinite, numbers)) else Kind.WRONG_VALUE
    assert said(kind, wrong(numbers, fault=fault), *operators, **facts) == expected


def test_title_of_complex_numbers_says_which_part_is_wrong() -> None:
    found = replace(wrong((1.0, 0.0)), part="imag")
    assert said(Kind.WRONG_VALUE, found, "add").endswith("add: 0 where 1 is right in the imaginary part")


def test_title_names_the_dtypes_that_are_computed_with() -> None:
    def of(*dtypes: str) -> str:
        return said(Kind.WRONG_VALUE, wrong((1.0, 2.0)), "gather", dtypes=dtypes).partition(":")[0]

    assert of("float32", "int64") == of("float32") == "gather", "an index is no operand"
    assert of("float64", "int64") == "gather of float64"
    assert of("float16", "float32") == "gather of float16 and float32"
    assert of("int8", "bool") == "gather of int8 and bool"


def test_title_has_one_verdict_for_less_precision() -> None:
    assert (
        said(Kind.REDUCED_PRECISION, wrong((1.0, 1.001))) == "Relu is less precise than asked: 1.001 where 1 is right"
    )


@pytest.mark.parametrize(
    ("operator", "numbers", "needs", "expected"),
    [
        ("ReduceMax", (32.4, 15.6), (InputClass.NAN,),
         "ReduceMax drops the largest number beside NaN: 15.6 where 32.4 is right"),
        ("max_pool2d", (32.4, 15.6), (InputClass.NAN, InputClass.TIES),
         "max_pool2d drops the largest number beside NaN: 15.6 where 32.4 is right"),
        ("ReduceMin", (0.25, 7.0), (InputClass.NAN,),
         "ReduceMin drops the smallest number beside NaN: 7 where 0.25 is right"),
        ("ReduceMax", (32.4, 50.0), (InputClass.NAN,), "ReduceMax: 50 where 32.4 is right"),
        ("ReduceMax", (32.4, 15.6), (), "ReduceMax: 15.6 where 32.4 is right"),
        ("Softmax", (0.5, 0.25), (InputClass.NAN,), "Softmax: 0.25 where 0.5 is right"),
    ],
)  # fmt: skip
def test_title_of_a_maximum_tells_what_nan_costs(
    operator: str, numbers: tuple[float, float], needs: tuple[InputClass, ...], expected: str
) -> None:
    assert said(Kind.WRONG_VALUE, replace(wrong(numbers), needs=needs), operator) == expected


def test_title_blames_subnormal_inputs_only_where_they_are_needed() -> None:
    found = wrong((1e-40, 0.0), fault=Fault.SUBNORMAL)
    assert said(Kind.WRONG_VALUE, found).startswith("Relu is wrong where the result is subnormal: ")
    needed = replace(found, needs=(InputClass.SUBNORMAL,))
    assert said(Kind.WRONG_VALUE, needed).startswith("Relu is wrong for subnormal numbers: ")


def test_subnormal_numbers_beside_other_wrong_ones_are_incidental() -> None:
    subnormal, plain = Element((0,), 1e-40, 0.0), Element((1,), 0.0, 670.0)
    assert faults_of([subnormal, plain], "float32") == (Fault.NUMBER, Fault.SUBNORMAL)
    assert faults_of([subnormal], "float32") == (Fault.SUBNORMAL,)


def test_title_of_a_gradient_names_the_function() -> None:
    found = wrong((5.6, 0.0), output="grad:x1")
    assert said(Kind.WRONG_VALUE, found, "max_pool2d", circumstances=(WITH_GRADIENT,)) == (
        "the gradient of max_pool2d: 0 where 5.6 is right"
    )


@pytest.mark.parametrize(
    ("kind", "stage", "found", "expected"),
    [
        (Kind.ERROR, "COMPILE", Evidence(exception="ValueError", said="unsupported rank 5"),
         "Relu raises: unsupported rank 5"),
        (Kind.ERROR, "COMPILE",
         Evidence(said="[ONNXRuntimeError] : 1 : FAIL : Exception during initialization: /src/a/fuse.cc:83 virtual"
                       " Status Fuse::Apply(Graph&) const Unexpected data type for Clip"),
         "Relu raises: Unexpected data type for Clip"),
        (Kind.ERROR, "RUN", Evidence(exception="KeyError"), "Relu raises KeyError"),
        (Kind.CRASH, "COMPILE", Evidence(signal="SIGSEGV"), "Relu kills the process while compiling (SIGSEGV)"),
        (Kind.TIMEOUT, "RUN", Evidence(), "Relu does not finish running in time"),
        (Kind.WRONG_DTYPE, "RUN", Evidence(wanted=("int64",), came=("int32",)),
         "Relu returns int32 where int64 is right"),
        (Kind.WRONG_SHAPE, "RUN", Evidence(wanted=("[2]",), came=("[]",)),
         "Relu returns the shape [] where [2] is right"),
        (Kind.WRONG_STRUCTURE, "RUN", Evidence(wanted=("0", "1"), came=("0",)), "Relu does not return output 1"),
        (Kind.MISSING_ERROR, "RUN", Evidence(wanted=("IndexError: out of range",)),
         "Relu computes what should raise IndexError: out of range"),
        (Kind.BIAS, "RUN", Evidence(pooled_z=9.0, direction="too large"),
         "Relu drifts: many small errors add up (too large)"),
    ],
)  # fmt: skip
def test_title_of_other_failures(kind: Kind, stage: str, found: Evidence, expected: str) -> None:
    assert said(kind, found, stage=stage) == expected


def test_large_programs_are_named_by_their_first_operators() -> None:
    assert named([]) == "a program"
    assert named(list("abcdef")) == "a → b → c → 3 more operators"


def test_numbers_are_as_short_as_the_difference_allows() -> None:
    assert short_pair(6.0, 3.0) == ("6", "3")
    assert short_pair(0.149291596, 0.149291441) == ("0.149292", "0.149291")
    assert short_pair(2**53 + 1, 2**53) == ("9007199254740993", "9007199254740992")
    assert short_pair(0.0, -0.0) == ("0.0", "-0.0")
    assert short_pair(True, False) == ("True", "False")


def test_the_telling_element_shows_the_fault_in_few_characters() -> None:
    worst = (Element((0,), -1160290625, -1160290688), Element((1,), 4, 5), Element((2,), NAN, 1.0))
    assert telling_element(worst, Fault.NUMBER) == worst[1]
    assert telling_element(worst, Fault.NAN_LOST) == worst[2]
    assert telling_element((), Fault.NUMBER) is None


def test_the_telling_element_is_far_off_and_of_an_ordinary_size() -> None:
    near, huge, plain = Element((0,), 2.0, 2.001), Element((1,), 1e30, 3e30), Element((2,), 13.53125, 27.1875)
    assert telling_element((near, huge, plain), Fault.NUMBER) == plain
    assert telling_element((near, huge), Fault.NUMBER) == huge
