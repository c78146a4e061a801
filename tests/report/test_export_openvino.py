"""Scripts for OpenVINO, whose arrays of bfloat16 go and come as bits."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx

from driftline.campaign.explain.exporting import subject_of
from driftline.campaign.explain.failing import find_failing
from driftline.checking.checker import Checker
from driftline.cli import run
from driftline.core.program import Program, file_digest
from driftline.core.target import Target
from driftline.report.export.clean_run import run_clean
from driftline.report.scripts.recipe_onnx import onnx_recipe
from driftline.store import Store

NEGATIVE = '<ir_version: 8, opset_import: ["": 18]> g (bfloat16[3] x) => (bfloat16[3] y) { y = Neg(x) }'
ABS = f"{Path(__file__).resolve().parents[2]}/examples/bugs/openvino_abs_int64.py:program"


def test_inputs_of_bfloat16_reach_the_compiler(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(NEGATIVE), str(path))
    program = Program("onnx", "onnx", file_digest(path), path, "m")
    recipe = onnx_recipe(program, {"x": np.array([1.5, 2, 3], ml_dtypes.bfloat16)}, Target.parse("openvino"))
    check = f"assert [float(v) for v in {recipe.got}[0]] == [-1.5, -2, -3]\nprint('right')"
    ran = run_clean("\n".join([*recipe.imports, *recipe.definitions, *recipe.setup, check]))
    assert ran.status == 0 and "right" in ran.output, ran.errors


def test_the_title_names_the_dtype_that_a_reduction_had_to_keep(store_folder: Path, checker: Checker) -> None:
    assert run(f"reduce {ABS} --target openvino --store {store_folder}".split()) == 1
    with Store.open(store_folder) as store:
        failing = find_failing("openvino", store, checker)
        reduced = subject_of(store, checker, failing)
        found = subject_of(store, checker, failing, original=True)
    assert reduced.title.startswith("openvino: Abs") and " of int64" in reduced.title
    assert found.title.startswith("openvino: Abs")
