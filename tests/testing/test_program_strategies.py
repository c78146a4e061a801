"""`driftline.strategies`: programs drawn by Hypothesis are valid, shrink, and are made smaller by the reducer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.strategies import SearchStrategy

from driftline.api import CheckRun
from driftline.campaign.check.settings import CheckSettings
from driftline.checking.checker import Checker
from driftline.core.errors import DriftlineError
from driftline.generate.blueprint import LANGUAGE
from driftline.generate.table import OPERATORS
from driftline.store import Store
from driftline.strategies import DrawnProgram, compiler_settings, programs

PLUGIN = Path(__file__).parents[1] / "diagnose" / "reduce_backends.py"
FEW = settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=True)
SEARCH = settings(FEW, max_examples=100)
CHAIN = ["relu", "add", "mul", "softplus", "erf", "tanh", "reshape", "transpose"]


def first_of(strategy: SearchStrategy[DrawnProgram]) -> DrawnProgram:
    return find(strategy, lambda one: True, settings=settings(SEARCH, phases=[Phase.generate]))


@FEW
@given(program=programs("torch", operators=[*CHAIN, "layer_norm", "gather", "matmul"], max_size=4))
def test_torch_programs_run(program: DrawnProgram) -> None:
    model, inputs = program.load()
    assert 1 <= len(program.operators) <= 4
    assert [tuple(one.shape) for one in inputs] == [array.shape for array in program.inputs.values()]
    assert len(model(*inputs)) == len(program.graph.outputs)


@FEW
@given(program=programs("onnx", dtypes=["float32"], operators=CHAIN, min_size=2, max_size=3))
def test_onnx_programs_are_of_what_was_asked_for(program: DrawnProgram) -> None:
    import onnx

    model, inputs = program.load()
    onnx.checker.check_model(model)
    assert set(program.operators) <= set(CHAIN) and 2 <= len(program.operators) <= 3
    assert set(inputs) == {one.name for one in model.graph.input}
    assert {array.dtype.name for array in inputs.values()} <= {"float32"}


def test_hypothesis_makes_a_program_smaller() -> None:
    """Its draws drive the generator: what remains is the operator that matters, on the smallest of tensors."""
    found = find(programs("torch", operators=CHAIN), lambda one: "softplus" in one.operators, settings=SEARCH)
    assert found.operators == ("softplus",)
    assert [array.size for array in found.inputs.values()] == [1]
    assert [array.dtype.name for array in found.inputs.values()] == ["float32"]


def test_sizes_get_smaller_too() -> None:
    def wide(one: DrawnProgram) -> bool:
        return any(array.size >= 2 for array in one.inputs.values())

    found = find(programs("onnx", operators=["relu"], max_size=1), wide, settings=SEARCH)
    assert [array.size for array in found.inputs.values()] == [2]


def test_a_program_is_checked_with_the_inputs_that_were_drawn(checker: Checker, tmp_path: Path) -> None:
    drawn = first_of(programs("onnx", operators=["tanh"], dtypes=["float32"]))
    with Store.create(tmp_path / "s") as store:
        result = CheckRun(checker, store, CheckSettings(targets=["onnxruntime"])).check(drawn)
    (sample,) = result.outcome.case.samples
    for name, array in drawn.inputs.items():
        np.testing.assert_array_equal(sample.arrays[name], array)
    assert [str(row.verdict.judgement) for row in result.results] == ["pass"]


def test_every_form_has_operators_to_draw() -> None:
    for form, language in LANGUAGE.items():
        assert first_of(programs(form, max_size=1)).form == form
        assert sum(one.form(language) is not None for one in OPERATORS.values()) > 100


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"form": "onxx"}, "Did you mean 'onnx'"),
        ({"operators": ["sofmax"]}, "Did you mean 'softmax'"),
        ({"dtypes": ["float23"]}, "Did you mean 'float32'"),
        ({"min_size": 3, "max_size": 2}, "1 <= min_size <= max_size"),
        ({"form": "onnx", "grad": True}, "only torch programs"),
        ({"values": ["randm"]}, "randm"),
        ({"operators": ["tanh"], "dtypes": ["bool"]}, "No operator"),
    ],
)
def test_mistakes_are_one_sentence(asked: dict[str, object], sentence: str) -> None:
    with pytest.raises(DriftlineError) as caught:
        programs(**asked)  # type: ignore[arg-type]
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_settings_take_what_hypothesis_takes() -> None:
    made = compiler_settings(7, derandomize=True)
    assert made.max_examples == 7 and made.deadline is None and made.derandomize


def test_without_hypothesis_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import driftline.strategies"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    told = done.stderr.strip().splitlines()[-1]
    assert told.startswith("ImportError: driftline.strategies needs Hypothesis") and "pip install" in told


TESTS = """
import pytest
from hypothesis import given
from driftline.strategies import compiler_settings, programs

OPERATORS = ["relu", "add", "mul", "softplus", "erf", "tanh"]


@compiler_settings(max_examples=30, derandomize=True, database=None)
@given(program=programs("onnx", operators=OPERATORS, dtypes=["float32"], min_size=4, max_size=7, values=["random"]))
@pytest.mark.driftline(targets=["odd-far-apart"])
def test_wrong(target, program, driftline_check):
    driftline_check(program, reduce=40)


@compiler_settings(max_examples=2, derandomize=True, database=None)
@given(program=programs("onnx", operators=["tanh"], dtypes=["float32"], max_size=2, values=["random"]))
@pytest.mark.driftline(targets=["onnxruntime"])
def test_right(target, program, driftline_check):
    driftline_check(program)
"""


@pytest.mark.slow
def test_the_reducer_makes_a_failing_program_small(tmp_path: Path) -> None:
    """The planted compiler is wrong wherever there are an erf and a softplus: what is reported has these two, although
    programs of at least four operators were drawn."""
    (tmp_path / "test_mine.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", "--rootdir", ".", "-p", "no:cacheprovider"]
    command += ["--driftline-plugin", str(PLUGIN), "--driftline-store", "store"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    shown = done.stdout
    assert "1 failed, 1 passed" in shown, shown[-4000:] + done.stderr[-2000:]
    assert "to 2 operators" in shown, shown[-4000:]
    assert "replay: driftline replay odd-far-apart-" in shown
    reduced = shown.partition("to 2 operators")[2].partition("Falsifying")[0]
    assert "Erf" in reduced and "Softplus" in reduced and "Relu" not in reduced
