"""Targets that disagree where the standard is silent: none of them fails, and a line says who does what."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from driftline.cli import run

PLUGIN = str(Path(__file__).with_name("opinionated_compilers.py"))


def test_who_does_what_where_the_standard_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '<ir_version: 8, opset_import: ["": 18]> g (float[3] x) => (int32[3] y) { y = Cast<to=6>(x) }'
    onnx.save(onnx.parser.parse_model(text), str(tmp_path / "cast.onnx"))
    np.savez(tmp_path / "x.npz", x=np.float32([1, np.nan, 2]))
    asked = ["check", str(tmp_path / "cast.onnx"), "--targets", "onnxruntime,makes-seven", "--plugin", PLUGIN]
    asked += ["--inputs", str(tmp_path / "x.npz"), "--store", str(tmp_path / "store"), "--json"]
    for more, code in (([], 0), (["--disagreements", "fail"], 1)):
        assert run([*asked, *more]) == code
        found = json.loads(capsys.readouterr().out)
        (one,) = found["disagreements"]
        assert one["place"] == [1] and one["output"] == "y"
        values = {target: each["value"] for each in one["values"] for target in each["targets"]}
        assert values["makes-seven"] == "7" != values["onnxruntime"]
        assert one["sentence"] in found["notes"] and "makes-seven 7" in one["sentence"]
        assert found["bugs"] == []
