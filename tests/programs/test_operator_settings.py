"""Settings of the operators of a program, as causes name them."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import parser

from driftline.core.program import Program, SourceBundle
from driftline.programs.settings import settings_of, without_setting

POOL = """<ir_version: 8, opset_import: ["": 18]> g (float[1,1,4,4] x) => (float[A,B,C,D] y) {
  y = AveragePool<kernel_shape=[2,2], ceil_mode=1, auto_pad="SAME_UPPER">(x)
}"""
PAD = """<ir_version: 8, opset_import: ["": 18]>
g (float[2] x) => (float[2] y) <int64[2] p = {1, -1}> { y = Pad(x, p) }"""
UNPOOL = """<ir_version: 8, opset_import: ["": 18]>
g (float[1,1,1,1] x, int64[1,1,1,1] i, int64[4] s) => (float[A,B,C,D] y) {
  y = MaxUnpool<kernel_shape=[2,2]>(x, i, s)
}"""
CAST = """<ir_version: 9, opset_import: ["": 19]>
g (float[2] x) => (float[2] y) { z = Cast<to=17>(x) y = Cast<to=1>(z) }"""


def _program(tmp_path: Path, data: bytes, form: str) -> Program:
    path = tmp_path / "program"
    path.write_bytes(data)
    return Program(form, "onnx" if form == "onnx" else "torch", "", path, "program")


@pytest.mark.parametrize(
    ("text", "there", "missing"),
    [
        (POOL, {"ceil_mode", "ceil_mode=1", "kernel_shape=2", "auto_pad=SAME_UPPER", "rank=4"}, {"strides", "x"}),
        (PAD, {"pads", "pads=1", "pads=-1", "pads=negative"}, {"constant_value", "axes"}),
        (UNPOOL, {"output_shape", "rank=4"}, {"X", "output"}),
        (CAST, {"to=float8_e4m3fn", "to=float32"}, {"saturate", "to=17"}),
    ],
)
def test_settings_of_an_onnx_model(tmp_path: Path, text: str, there: set[str], missing: set[str]) -> None:
    found = settings_of(_program(tmp_path, parser.parse_model(text).SerializeToString(), "onnx"))
    assert there <= found
    assert not missing & found


def test_settings_of_a_torch_program_are_the_keywords_of_its_calls(tmp_path: Path) -> None:
    text = "def program():\n    return lambda x: torch.max_pool2d(x, 2, ceil_mode=True, padding=size), (x,)\n"
    bundle = SourceBundle("program.py", "program", {"program.py": text})
    assert settings_of(_program(tmp_path, bundle.dump(), "source")) == {"ceil_mode", "ceil_mode=1"}


@pytest.mark.parametrize(("text", "name", "inputs"), [(POOL, "ceil_mode", ["x"]), (UNPOOL, "output_shape", ["x", "i"])])
def test_a_setting_is_unset_with_the_inputs_that_only_it_reads(
    tmp_path: Path, text: str, name: str, inputs: list[str]
) -> None:
    changed = without_setting(parser.parse_model(text), name)
    assert [one.name for one in changed.graph.input] == inputs
    assert name not in settings_of(_program(tmp_path, changed.SerializeToString(), "onnx"))
    assert without_setting(changed, name) is None
