"""Generated TensorFlow programs on TensorFlow's XLA and on TensorFlow Lite: screened, judged, and watched."""

from __future__ import annotations

import pytest

from driftline.backends import BACKENDS
from driftline.campaign.check.forms import form_of
from driftline.checking.batch import Screening
from driftline.checking.batch_requests import ProgramRequest
from driftline.core.target import Target
from driftline.execute.pool import Pool
from driftline.generate.graph import Graph, Leaf, Node, TensorType

pytest.importorskip("tensorflow")

_LAYER = Graph(
    (
        Leaf("input", TensorType("float32", (2, 3))),
        Leaf("parameter", TensorType("float32", (4, 3)), seed=1),
        Leaf("parameter", TensorType("float32", (4,)), seed=2),
    ),
    (
        Node("linear", (0, 1, 2), (TensorType("float32", (2, 4)),)),
        Node("relu", (3,), (TensorType("float32", (2, 4)),)),
    ),
    (4,),
)
_LAYER_WANTED = ProgramRequest("graph", "linear", 0, ("random",), seed="s", graph=_LAYER)


def test_hunts_write_tensorflow_programs_for_them() -> None:
    assert {form_of(BACKENDS.get(name)) for name in ("tensorflow", "tensorflow-xla", "tflite")} == {"tensorflow"}


@pytest.mark.parametrize(
    ("name", "rule"),
    [("tensorflow-xla", "layout-assignment"), ("tflite", "add fully_connected relu > fully_connected:RELU")],
)
def test_a_batch_is_judged_and_its_rewrites_are_seen(pool: Pool, name: str, rule: str) -> None:
    alone = [ProgramRequest("graph", arm, 0, ("random",), seed=arm) for arm in ("exp", "permute")]
    with Screening(pool, "tensorflow", seed=3) as screening:
        layer, *others = screening.screen([_LAYER_WANTED, *alone], Target(name))
    assert [result.judgement for result in (layer, *others)] == ["pass"] * 3, [r.reason for r in (layer, *others)]
    assert rule in layer.behaviour
    assert layer.behaviour != others[1].behaviour


@pytest.mark.parametrize("mode", ["float16", "dynamic", "int8"])
def test_quantised_conversions_are_judged_by_their_quanta(pool: Pool, mode: str) -> None:
    target = Target.parse(f"tflite:quantise={mode}")
    strange = ProgramRequest("graph", "exp", 0, ("nan",), seed="exp")
    with Screening(pool, "tensorflow", seed=3) as screening:
        layer, other = screening.screen([_LAYER_WANTED, strange], target)
    assert layer.judgement == "pass", layer.reason
    assert "not judged" not in layer.reason
    assert other.judgement == ("pass" if mode == "float16" else "rejected"), other.reason


def test_a_range_that_the_specification_fixes_is_no_finding(pool: Pool) -> None:
    wanted = ProgramRequest("graph", "log_softmax", 0, ("random",), seed="log_softmax")
    with Screening(pool, "tensorflow", seed=3) as screening:
        (found,) = screening.screen([wanted], Target.parse("tflite:quantise=int8"))
    assert found.judgement == "rejected" and "ends at -16" in found.reason


def test_a_value_inside_without_a_range_is_rejected_for_eight_bits(pool: Pool) -> None:
    wanted = ProgramRequest("graph", "sqrt", 0, ("random",), seed="sqrt")
    with Screening(pool, "tensorflow", seed=3) as screening:
        (found,) = screening.screen([wanted], Target.parse("tflite:quantise=int8"))
    assert found.judgement == "rejected" and "Sqrt gives numbers that eight bits cannot stand for" in found.reason
