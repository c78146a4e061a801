"""What a maintainer may rely on: a script shows the bug of its title, a correctly rounded result passes its assertion,
and its numbers are read at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from driftline.campaign.explain.exporting import subject_of
from driftline.campaign.explain.failing import find_failing
from driftline.campaign.explain.plain_numbers import versions
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.core.tensors import Arrays
from driftline.programs.onnx.text import TextDetail, model_text
from driftline.report.export.clean_run import run_clean
from driftline.report.export.same_error import told_alike
from driftline.report.export.script import Exported, export_script
from driftline.report.export.subject import Subject
from driftline.report.scripts.recipe_source import source_recipe
from driftline.store import Store

PLUGIN = str(Path(__file__).with_name("compilers_to_export.py"))
SCALED = """<ir_version: 8, opset_import: ["": 18]>
g (float[40,8] x) => (float[40,8] y) <float c = {0.3}> { y = Mul(x, c) }"""
TYPED = """<ir_version: 8, opset_import: ["": 18]>
g (float[3] x) => (float[3] y) <float[3] t> { t = Neg(x) y = Neg(t) }"""
WEIGHED = '<ir_version: 8, opset_import: ["": 18]> g (float[5,40] x) => (float[5,30] y) { y = MatMul(x, w) }'


@pytest.fixture(autouse=True)
def plugin() -> None:
    load_plugins([PLUGIN])


def found(model: onnx.ModelProto, arrays: Arrays, target: str, folder: Path, checker: Checker) -> Subject:
    """The bug that a check of this model shows."""
    onnx.save(model, str(folder / "model.onnx"))
    np.savez(folder / "inputs.npz", **arrays)  # type: ignore[arg-type]
    options = CheckOptions(plugins=(PLUGIN,), memory_limit=2 << 30)
    with Store.create(folder / "store") as store:
        failing = find_failing(
            str(folder / "model.onnx"), store, checker, target=Target.parse(target),
            inputs=str(folder / "inputs.npz"), options=options,
        )  # fmt: skip
        return subject_of(store, checker, failing)


@pytest.fixture(scope="module")
def near_zero(checker: Checker, tmp_path_factory: pytest.TempPathFactory) -> tuple[Subject, Exported]:
    load_plugins([PLUGIN])
    x = np.random.default_rng(5).standard_normal((40, 8)).astype(np.float32)
    x[3, 3] = 3.1415927e-8
    folder = tmp_path_factory.mktemp("near")
    subject = found(onnx.parser.parse_model(SCALED), {"x": x}, "wrong-near-zero", folder, checker)
    return subject, export_script(subject)


def test_a_bug_much_smaller_than_other_elements_round_has_a_script(near_zero: tuple[Subject, Exported]) -> None:
    _, script = near_zero
    assert script.valid, f"{script.reason}\n{script.text}"
    assert "a correctly rounded result" in script.reason
    assert run_clean(script.control, files=script.files).status == 0


def test_plain_numbers_stand_for_the_failing_ones(near_zero: tuple[Subject, Exported]) -> None:
    _, script = near_zero
    assert 'inputs = {"x": np.full((40, 8), 3e-08, dtype=np.float32)}' in script.text
    assert "BUG: 320 of 320 elements are wrong" in script.output and script.output.count("expected") == 5


def test_a_script_that_a_right_result_fails_is_not_valid(near_zero: tuple[Subject, Exported]) -> None:
    subject, _ = near_zero
    right = {name: array * np.float32(1.01) for name, array in subject.right.items()}
    script = export_script(replace(subject, right=right, plainer=()))
    assert not script.valid and "no tolerance" in script.reason


def test_the_failing_inputs_are_kept_where_no_plainer_ones_fail(near_zero: tuple[Subject, Exported]) -> None:
    subject, _ = near_zero
    script = export_script(replace(subject, plainer=()))
    assert script.valid and "# The packed numbers are the ones that fail" in script.text


@pytest.mark.slow
def test_weights_become_plain_too(checker: Checker, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    model = onnx.parser.parse_model(WEIGHED)
    weights = (rng.standard_normal((40, 30)) * 1e-9).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    x = rng.standard_normal((5, 40)).astype(np.float32)
    script = export_script(found(model, {"x": x}, "wrong-near-zero", tmp_path, checker))
    assert script.valid and "base64" not in script.text, script.text
    assert script.lines <= 27


def test_a_script_shows_the_error_of_its_title(checker: Checker, tmp_path: Path) -> None:
    """Without the types of values in between, another error comes."""
    model = onnx.parser.parse_model(TYPED)
    subject = found(model, {"x": np.ones(3, np.float32)}, "complains-of-types", tmp_path, checker)
    script = export_script(subject)
    assert script.valid, script.reason
    assert "float[3] t" in script.text and "BUG: RuntimeError: the type of a value in between" in script.output


def test_errors_are_compared_without_numbers() -> None:
    assert told_alike("RuntimeError: shape [3, 4] at /a/b.cc:12", "RuntimeError: shape [5] at /c/b.cc:77")
    assert not told_alike("RuntimeError: no kernel for Erf of double", "RuntimeError: the graph has no name")
    assert not told_alike("RuntimeError: no kernel", "ValueError: no kernel")


def test_model_text_keeps_as_much_as_it_is_told() -> None:
    model = onnx.parser.parse_model(TYPED)
    model.graph.node[0].name = "first"
    model.producer_name = "exporter"
    texts = [model_text(model, detail)[0] for detail in TextDetail]
    assert ["float[3] t" in text for text in texts] == [False, True, True]
    assert ["[first]" in text and "exporter" in text for text in texts] == [False, False, True]
    for text in texts:
        onnx.checker.check_model(onnx.parser.parse_model(text))


def test_remarks_of_quantisers_and_functions_do_not_make_a_blob() -> None:
    model = onnx.parser.parse_model(TYPED)
    model.graph.quantization_annotation.add().tensor_name = "x"
    assert model_text(model)[0] and not model_text(model, TextDetail.EVERYTHING)[0]


def test_plainer_versions_keep_dtype_and_shape() -> None:
    for array in (
        np.float32([[1.5, np.nan], [2.25, -3]]),
        np.arange(40, dtype=np.int8).reshape(4, 10),
        np.array([True, False] * 8),
        np.random.default_rng(0).standard_normal(20).astype(np.float16),
    ):
        made = versions(array, 1, array.reshape(-1)[1])
        assert made and all((v.dtype, v.shape) == (array.dtype, array.shape) for v in made.values())


def test_special_numbers_go_with_ordinary_ones() -> None:
    """A NaN in one of many inputs is found in one question: it everywhere in that input, and zeros in the others."""
    with_nan, without = (versions(np.float32([[1.5, odd], [2.25, -3]]), 0) for odd in (np.nan, 7))
    assert np.isnan(with_nan["all special or 0"]).all() and not without["all special or 0"].any()


SHARED = """
import torch


def model(x, y, z):
    x.add_(1)
    return y * 2, torch.zeros(()) + z.stride(1)


def program():
    a = torch.zeros(2, 3)
    return model, (a, a, torch.zeros(1, 2, 3, 3).to(memory_format=torch.channels_last))
"""


def test_inputs_that_share_memory_do_so_in_a_script() -> None:
    arrays = {
        "x": np.ones((2, 3), np.float32),
        "y": np.ones((2, 3), np.float32),
        "z": np.ones((1, 2, 3, 3), np.float32),
    }
    bundle = SourceBundle("p.py", "program", {"p.py": SHARED})
    recipe = source_recipe(bundle, "torch", arrays, Target.parse("eager"))
    shown = f"for _ in range(2):\n    print([x.reshape(-1)[0].item() for x in {recipe.expected}])"
    ran = run_clean("\n".join([*recipe.imports, *recipe.definitions, *recipe.setup, shown]))
    assert ran.output.splitlines() == ["[4.0, 1.0]"] * 2, ran.errors
