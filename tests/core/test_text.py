"""The helpers for sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.core.text import did_you_mean, first_line, normalise_message, tail, telling_line, told_apart


def test_near_names_are_offered() -> None:
    assert did_you_mean("inducter", ["inductor", "tvm"]) == " Did you mean 'inductor'?"
    assert did_you_mean("zzz", ["inductor", "tvm"]) == ""


def test_first_line_skips_blank_lines_and_is_short() -> None:
    assert first_line("\n  \n  said  \nmore") == "said"
    assert first_line("") == ""
    assert first_line("x" * 20, 10) == "x" * 9 + "…"


@given(st.text(), st.integers(1, 50))
def test_limits_are_kept(text: str, limit: int) -> None:
    assert len(first_line(text, limit)) <= limit
    assert len(tail(text, limit)) <= limit + 1
    assert tail(text, limit).removeprefix("…") in text or text.startswith("…")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 0x7f00aa: bad", "at 0x55b1c2d0: bad"),
        ("cannot open /tmp/abc123/kernel.so", "cannot open /var/x/kernel.so"),
        ("shape [2, 3, 4] expected", "shape [7, 8] expected"),
        ("node 'add_12' failed", "node 'mul_7' failed"),
        ("off by 1.5e-07", "off by 3"),
        ("kernel cabc0123456789ef", "kernel 0123456789abcdef"),
    ],
)
def test_what_changes_from_run_to_run_is_left_out(one: str, other: str) -> None:
    assert normalise_message(one) == normalise_message(other)


def test_different_errors_stay_different() -> None:
    assert normalise_message("no kernel for Conv") != normalise_message("no kernel for Gemm")
    assert normalise_message("KeyError: 'axis'") != normalise_message("KeyError: 'dim'")


@given(st.text(max_size=80))
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise_message(text)
    assert normalise_message(once) == once


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain message", "plain message"),
        (
            "C++ compile error\n\nCommand:\ng++ x.cpp\n\nOutput:\nx.cpp:3:1: error: no match for 'x'\n",
            "no match for 'x'",
        ),
        ("Exception from src/a.cpp:1:\nException from src/b.cpp:2:\nThe split number is invalid\n", "The split number"),
        ("Check 'false' failed at src/c.cpp:151:\nFrontEnd API failed with X:\nthe cause\n", "the cause"),
        ("LoweringException: AssertionError: \n  target: aten.foo.default\n", "target: aten.foo.default"),
        (
            "Traceback (most recent call last):\n  File x\nInternalError: Check failed: n == 2\n",
            "InternalError: Check failed",
        ),
        ("", ""),
        (
            "Check 'false' failed at src/report.cpp:151:\nFrontEnd API failed with OpConversionFailure:\n"
            "Model wasn't fully converted.\nSummary:\n-- No conversion rule found for operations: my.domain.Twice\n"
            "To facilitate the conversion, refer to the documentation",
            "No conversion rule found for operations: my.domain.Twice",
        ),
    ],
)
def test_the_telling_line_of_an_error(text: str, line: str) -> None:
    assert line in telling_line(text)


def test_dtypes_and_shapes_do_not_make_another_message() -> None:
    first = normalise_message('bad R.Tensor((3, 4), dtype="float32")')
    assert first == normalise_message('bad R.Tensor((7,), dtype="bfloat16")')


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_numbers_are_told_apart(one: float, other: float) -> None:
    texts = told_apart(one, other)
    assert (texts[0] == texts[1]) == (one == other and str(one) == str(other))
    assert told_apart(0.1, 0.25) == ("0.1", "0.25")
