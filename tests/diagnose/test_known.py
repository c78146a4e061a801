"""What is known of bugs is data: rows match whole fingerprints, and a cause makes one bug of many sightings."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from driftline.backends import BACKENDS
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.verdict import Fingerprint, Judgement, Kind, Verdict
from driftline.diagnose.fingerprint import fingerprint, message_fingerprint
from driftline.diagnose.known import known_issue, known_issues

CLAMPED = "output0: at (0,): expected inf, got 3.4028234663852886e+38"


def seen(backend: str, kind: Kind, pattern: str, reason: str = "") -> Fingerprint:
    program = Program("onnx", "onnx", "", Path("x"), "x", operators=(pattern,))
    execution = Execution(backend, Outcome.OK, Stage.RUN)
    return fingerprint(program, Target(backend), execution, Verdict(Judgement.FAIL, reason, kind))


def test_every_row_is_about_a_backend_and_compiles() -> None:
    for row in known_issues():
        assert any(re.fullmatch(row.backend, name) for name in BACKENDS), row.title
        re.compile(row.kinds)
        re.compile(row.detail)
        assert row.url == "" or row.url.startswith("https://")


def test_one_cause_is_one_bug() -> None:
    shows = [
        seen("openvino", Kind.WRONG_VALUE, "chunk(float64)", CLAMPED),
        seen("openvino", Kind.WRONG_NONFINITE, "reciprocal(float64)", CLAMPED),
        seen("openvino", Kind.BIAS, "mul(add(float64))", CLAMPED),
    ]
    assert len({found.bug_id for found in shows}) == 1
    assert known_issue(shows[0]), "a bug that goes by its cause is still known"


def test_one_cause_may_show_while_compiling_and_while_running() -> None:
    shows = [
        message_fingerprint("onnxruntime", stage, "error", f"Fail: {words}")
        for stage, words in (
            ("COMPILE", "Node (gemm_input_reshape) Op (Reshape) Invalid position of 0."),
            ("RUN", "while running Reshape node. Name:'gemm_input_reshape'"),
        )
    ]
    assert len({found.bug_id for found in shows}) == 1
    other = message_fingerprint("onnxruntime", "RUN", "error", "Fail: while running Reshape node. Name:'r'")
    assert other.bug_id != shows[0].bug_id


def test_a_row_may_be_about_several_backends() -> None:
    shows = [seen(backend, Kind.WRONG_VALUE, "upsample_bicubic(uint8)") for backend in ("inductor", "aot_eager_decomp")]
    assert all(known_issue(found) for found in shows), "also when they go by their cause"
    assert len({found.bug_id for found in shows}) == 2


@pytest.fixture
def on_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")


def test_what_one_processor_shows_names_nothing_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for machine in ("aarch64", "x86_64"):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        found[machine] = seen("openvino", Kind.WRONG_VALUE, "tanh(float)")
    assert found["aarch64"].detail == "tanh has no relative accuracy near zero"
    assert found["x86_64"].detail == "tanh(float)"
    assert known_issue(found["aarch64"]), "a bug that was named on its processor keeps its name elsewhere"


@pytest.mark.usefixtures("on_arm")
def test_sums_in_half_precision_are_not_mixed_up_with_mixed_up_groups() -> None:
    """Both show in float16 convolutions of ONNX Runtime: one is rounding, the other takes the wrong numbers."""
    rounded = "output0: at (0, 1) expected -0.0026, got -0.0025: legal rounding moves this element by 9e-07; the"
    sums = [
        seen("onnxruntime", Kind.WRONG_VALUE, f"{operator}(float16)", f"{rounded} compiler moved it by 171 times that")
        for operator in ("conv1d", "mm", "global_avg_pool2d", "linear")
    ]
    sums.append(seen("onnxruntime", Kind.WRONG_NONFINITE, "conv1d(float16)", "at (0,): expected -inf, got nan"))
    assert len({found.bug_id for found in sums}) == 1
    groups = seen(
        "onnxruntime", Kind.WRONG_VALUE, "conv2d(float16)", f"{rounded} compiler moved it by 2.61e+05 times that"
    )
    assert groups.bug_id != sums[0].bug_id
    nothing = (
        "at (15, 4, 1) expected -297.756348, got 0: legal rounding moves this by 0.08; it moved it by 3.53e+03 times"
    )
    assert seen("onnxruntime", Kind.WRONG_VALUE, "conv2d(float16)", nothing) == groups
    cancelled = (
        "at (0, 1) expected 0.000122, got 0.0003: legal rounding moves this by 1e-7; it moved it by 1.2e+03 times"
    )
    assert seen("onnxruntime", Kind.WRONG_VALUE, "conv2d(float16)", cancelled) == sums[0]
    assert seen("onnxruntime", Kind.WRONG_VALUE, "conv1d(float)", rounded).detail == "conv1d(float)"


@pytest.mark.usefixtures("on_arm")
def test_a_logarithm_without_nan_is_one_bug() -> None:
    shows = [
        seen("openvino", Kind.WRONG_NONFINITE, "log(float)", "at (0, 0): expected -inf, got -88.02969360351562"),
        seen("openvino", Kind.WRONG_NONFINITE, "log10(float)", "at (0,): expected nan, got 83.86715698242188"),
        seen("openvino", Kind.WRONG_VALUE, "logsumexp(float)", "at (7, 4) expected 2.94882261, got 2.94882107"),
    ]
    assert len({found.bug_id for found in shows}) == 1
    assert seen("openvino", Kind.WRONG_VALUE, "logical_and(float)").detail == "logical_and(float)"


def test_a_lost_infinity_is_not_the_reported_bug_of_lost_nan() -> None:
    lost = seen("tvm", Kind.WRONG_NONFINITE, "maximum(float)", "at (11, 1): expected nan, got 0.0")
    capped = seen("tvm", Kind.WRONG_NONFINITE, "maximum(float)", "at (2,): expected -inf, got -3.4028234663852886e+38")
    reported, own = known_issue(lost), known_issue(capped)
    assert reported and reported.reported and own and not own.reported
    assert lost.bug_id != capped.bug_id


def test_others_keep_their_own_name() -> None:
    first, second = seen("openvino", Kind.WRONG_VALUE, "atan(float)"), seen("openvino", Kind.WRONG_VALUE, "gelu(float)")
    assert first.bug_id != second.bug_id
    assert known_issue(first) is None
    assert seen("onnxruntime", Kind.WRONG_VALUE, "chunk(float64)", CLAMPED).detail == "chunk(float64)"
    assert seen("openvino", Kind.WRONG_VALUE, "cumsum(float64)") != seen(
        "openvino", Kind.WRONG_VALUE, "cumsum(float64)", CLAMPED
    )


def test_a_drift_and_a_wrong_element_are_one_bug() -> None:
    assert seen("tvm", Kind.BIAS, "sum(float)") == seen("tvm", Kind.WRONG_VALUE, "sum(float)")


def test_a_lost_nan_and_a_death_are_one_bug_in_all_widths() -> None:
    lost = [
        seen("xla", Kind.WRONG_NONFINITE, f"sort({dtype})") for dtype in ("float", "float16", "bfloat16", "float64")
    ]
    assert {found.detail for found in lost} == {"sort(float)"}
    assert seen("xla", Kind.WRONG_NONFINITE, "sort(complex)") != lost[0]
    assert seen("xla", Kind.CRASH, "sort(uint8)").bug_id == seen("xla", Kind.CRASH, "sort(int)").bug_id
    assert seen("xla", Kind.WRONG_VALUE, "sort(float16)") != seen("xla", Kind.WRONG_VALUE, "sort(float)")
