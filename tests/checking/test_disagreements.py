"""Targets that disagree where the standard is silent: none of them fails, and a line says who does what."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from driftline.checking.checker import CheckOutcome, TargetResult
from driftline.checking.disagreements import disagreements
from driftline.cli import run
from driftline.core.case import Case, CheckOptions
from driftline.core.evidence import Evidence
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Verdict
from driftline.oracle.judge import Reference, ReferenceSample
from driftline.oracle.outputs import ShadowAnswer

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


def test_what_differs_by_rounding_is_no_disagreement() -> None:
    """The first output is rounded otherwise by each target; only an element of the second one is left open."""
    native = {"rounded": np.float32([1e-9]), "chosen": np.array([4, 0])}
    answer = ShadowAnswer({}, {}, {}, {}, open={"rounded": np.array([False]), "chosen": np.array([False, True])})
    sample = ReferenceSample(native=native, shadow=lambda arithmetic, runs, outputs: answer)
    rows = []
    for name, rounded, chosen in (("eager", 1e-9, 0), ("inductor", 3e-9, 1)):
        outputs = {"rounded": np.float32([rounded]), "chosen": np.array([4, chosen])}
        verdict = Verdict(Judgement.INCONCLUSIVE, "", None, Evidence(unspecified=("rounding-decides",) * chosen))
        rows.append(TargetResult(Target(name), Execution(name, Outcome.OK, Stage.RUN, outputs=(outputs,)), verdict))
    case = Case(Program("source", "torch", "0" * 64, Path("p.py"), "p"), (), (), CheckOptions())
    outcome = CheckOutcome(case, Reference((sample,)), (replace(rows[0], verdict=Verdict(Judgement.PASS, "")), rows[1]))
    (found,) = disagreements(outcome)
    assert (found.output, found.place) == ("chosen", (1,))
    assert str(found).startswith("chosen[1]: eager 0; inductor 1: ")
    assert found.by_rounding, "--disagreements fail does not count it"
    assert not replace(found, clauses=("torch.empty", "rounding-decides")).by_rounding
