"""The script of compile time or memory that grows too fast: it compiles every size in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import driftline.testing
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.measure.estimate import Estimate
from driftline.perf.check import sample_case
from driftline.perf.growth import EXPONENT, Grower, GrowthEffort, sizes_to
from driftline.perf.recording import record_growth, timing_script
from driftline.perf.result import GrowthRow
from driftline.perf.words import growth_words
from driftline.report.export.clean_run import CleanRun
from driftline.report.export.script import Exported
from driftline.report.scripts.growth import REPEATED_MODEL
from driftline.store import Store

PLUGIN = str(Path(driftline.testing.__file__).with_name("slow.py"))
GROWING = """
<ir_version: 8, opset_import: ["": 18]>
growing (float[N,2] x) => (float[M,2] y) <float[1,2] w = {1.0, 2.0}> { y = Concat<axis=0>(x, w) }
"""
FIXED = """
<ir_version: 8, opset_import: ["": 18]>
fixed (float[2,2] x) => (float[1,2] y) { y = ReduceSum(x) }
"""
TEXT = """
import torch

def run(x):
    return torch.ceil(x)

def make():
    return run, (torch.ones(10, 50),)
"""


def script(checker: Checker, place: Path, target: str, program: str, kind: str, *, limit: float = 1.5) -> Exported:
    """Of a finding as it is kept; what it says was measured is not measured here."""
    case = sample_case(open_program(program, checker.pool, CheckOptions()), CheckOptions())
    grows = Estimate(2.0, 1.9, 2.1)
    row = GrowthRow(
        target, (10, 20, 40, 80), (0.1, 0.2, 0.8, 3.2), (1 << 20, 4 << 20, 16 << 20, 64 << 20),
        time_exponents=(grows, grows), memory_exponents=(grows, grows), found=(kind,),
    )  # fmt: skip
    with Store.create(place / "store") as store:
        (bug,) = record_growth(store, case, Target.parse(target), row, limit)
        return timing_script(store, bug)


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    onnx.save(parser.parse_model(GROWING), tmp_path / "growing.onnx")
    onnx.save(parser.parse_model(FIXED), tmp_path / "fixed.onnx")
    (tmp_path / "net.py").write_text(TEXT)
    files = {"onnx": "growing.onnx", "fixed": "fixed.onnx", "torch": "net.py:make"}
    return {form: str(tmp_path / name) for form, name in files.items()}


@pytest.mark.parametrize(
    ("target", "form", "kind", "compiles", "printed"),
    [
        ("onnxruntime", "onnx", "slow-compile", "    prepared(model, inputs)()", "CPU time grows"),
        ("inductor", "torch", "slow-compile", "    torch.compile(repeated)(*inputs)", "CPU time grows"),
        (
            "inductor:enable_auto_functionalized_v2=0", "torch", "slow-compile",
            "    torch.compile(repeated, options={'enable_auto_functionalized_v2': 0})(*inputs)", "CPU time grows",
        ),
        ("openvino", "torch", "memory", "    prepared(model, arrays)()", "memory grows"),
    ],
)  # fmt: skip
def test_a_script_compiles_every_size_with_the_compiler_and_then_without_it(
    target: str, form: str, kind: str, compiles: str, printed: str, checker: Checker, tmp_path: Path,
    programs: dict[str, str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    ran: list[str] = []

    def run(text: str, limit: float) -> CleanRun:
        ran.append(text)
        return CleanRun(1, "", "BUG: grows", 1.0) if len(ran) == 1 else CleanRun(0, "", "", 1.0)

    monkeypatch.setattr("driftline.report.export.growing.run_clean", run)
    made = script(checker, tmp_path, target, programs[form], kind)
    assert made.valid and compiles in made.text.splitlines() and printed in made.text
    assert "[10, 20, 40, 80]" in made.text and "import driftline" not in made.text
    compile(made.text, "script.py", "exec")
    assert len(ran) == 2 and compiles not in ran[1].splitlines()


def test_the_script_of_a_model_runs_by_itself_and_prints_every_size(
    checker: Checker, tmp_path: Path, programs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftline.perf.recording.LEAST_SECONDS", 1e-3)  # a small model compiles in milliseconds
    made = script(checker, tmp_path, "onnxruntime", programs["onnx"], "slow-compile", limit=-9.0)
    assert made.text and "80 nodes: " in made.output, made.reason
    assert made.output.count("s of CPU time") == 4


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_script_of_memory_that_grows_prints_it_and_needs_no_driftline(checker: Checker, tmp_path: Path) -> None:
    """The planted compiler uses 4 KiB for each pair of operators, 100 MiB for 160."""
    load_plugins((PLUGIN,))
    (tmp_path / "net.py").write_text(TEXT)
    options = CheckOptions(plugins=(PLUGIN,))
    case = sample_case(open_program(f"{tmp_path}/net.py:make", checker.pool, options), options)
    target = Target.parse("planted-slow:factor=1:memory=quadratic")
    effort = GrowthEffort(sizes_to(160))
    row = Grower(checker, case, effort, EXPONENT, lambda words: None).measure(target)
    assert row.found == ("memory",), growth_words(row)
    with Store.create(tmp_path / "store") as store:
        (bug,) = record_growth(store, case, target, row, EXPONENT)
        made = timing_script(store, bug)
    assert made.valid, made.reason
    assert "driftline" not in made.text.split('"""', 2)[-1] and "160 nodes: " in made.output
    assert "100 MiB to compile" in made.output


def test_values_that_are_left_out_stay_out_in_every_copy() -> None:
    node = helper.make_node("LSTM", ["x", "w", "r", "", "", "x"], ["", "y"], hidden_size=3)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 2, 3)) for name in "xy")
    weights = [numpy_helper.from_array(np.ones((1, 12, 3), np.float32), name) for name in "wr"]
    model = helper.make_model(helper.make_graph([node], "lstm", [x], [y], weights))
    defined: dict[str, Any] = {"onnx": onnx}
    exec(REPEATED_MODEL, defined)
    made = defined["repeated_model"](model, "x", 3)
    onnx.checker.check_model(made, full_check=True)
    assert [list(one.output) for one in made.graph.node] == [["", f"y__{copy}"] for copy in range(3)]


def test_what_has_no_growth_script_says_why(checker: Checker, tmp_path: Path, programs: dict[str, str]) -> None:
    made = script(checker, tmp_path, "onnxruntime", programs["fixed"], "memory")
    assert not made.valid and not made.text and "takes its result" in made.reason
