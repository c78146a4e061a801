"""The corpus itself: what it lists, what it refuses, that it builds the same bits each time, and its files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from driftline.checking.open import open_program
from driftline.cli import run
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.execute.pool import Pool
from driftline.models import CATALOGUE, Entry, find, names
from driftline.models.seeded import integers, mask, noise

QUICK = ("llama-float16", "pointnet")


def test_the_corpus_is_broad_and_listed(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "list", "--json"]) == 0
    listed = json.loads(capfd.readouterr().out)["models"]
    assert len(listed) >= 40 and len({model["name"] for model in listed}) == len(listed)
    assert {model["dtype"] for model in listed} >= {"float32", "float16", "bfloat16", "int8", "int4"}
    assert {model["name"] for model in listed if model["size"] == "full"} >= {"bert-base", "resnet-50"}
    assert run(["models", "list", "--family", "decoder"]) == 0
    shown = capfd.readouterr().out
    assert "mixtral" in shown and "resnet" not in shown


def test_listing_imports_no_framework() -> None:
    text = (
        "import sys; from driftline.models import names; names(); print({'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("command", ["check model:bertt", "models export bertt --as onnx"])
def test_a_wrong_name_is_answered_with_the_near_one(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(command.split()) == 2
    told = capfd.readouterr().err
    assert "There is no model 'bertt'. Did you mean 'bert'" in told and "Traceback" not in told


def test_a_missing_package_is_one_sentence() -> None:
    with pytest.raises(DriftlineError, match=r"needs no_such_package, which is not installed: pip install"):
        Entry("x", "text", "text:bert", "", needs=("torch", "no_such_package")).require_packages()


def test_numbers_are_the_same_bits_on_every_machine() -> None:
    """Known values, written down once: on another machine this test fails if they are not the same there."""
    assert noise("weight", (4,)).tobytes().hex() == "0678723e80a49fbf61d662bf04ec483f"
    assert integers("tokens", 6, high=100).tolist() == [23, 49, 7, 53, 72, 29]
    drawn = noise("many", (100_000,), 2.0, mean=3.0)
    assert abs(float(drawn.mean()) - 3.0) < 0.05 and abs(float(drawn.std()) - 2.0) < 0.05
    assert mask(2, 4, padding=1).tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert mask(2, 4, padding=1, left=True).tolist() == [[1, 1, 1, 1], [0, 1, 1, 1]]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names()]
)
def test_two_processes_build_the_same_model(name: str, pool: Pool) -> None:
    """Weights and inputs (of an ONNX model, the whole file) have the same digest in two fresh processes."""
    first, second = (open_program(f"model:{name}", pool, CheckOptions()) for _ in range(2))
    if find(name).form == "onnx":
        assert first.program.digest == second.program.digest
    else:
        assert first.program.state and first.program.state == second.program.state
    assert all(np.isfinite(array).all() for array in first.example.values() if array.dtype == np.float32)
    assert [spec.name for spec in first.program.inputs] == list(first.example)


@pytest.mark.parametrize(
    ("options", "opset"),
    [
        ("--exporter torchscript --opset 14", 14),
        pytest.param("--exporter dynamo --opset 20 --dynamic", 20, marks=pytest.mark.slow),
    ],
)
def test_an_exported_file_has_named_axes(options: str, opset: int, tmp_path: Path) -> None:
    path = tmp_path / "llama.onnx"
    command = [sys.executable, "-m", "driftline", "models", "export", "llama", "--as", "onnx", "--out", str(path)]
    done = subprocess.run([*command, *options.split()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    model = onnx.load(path)
    onnx.checker.check_model(model)
    axes = {
        value.name: [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    assert axes["input_ids"] == ["batch", "sequence"]
    assert axes["past_key_values.1.value"] == ["batch", 2, "past_sequence", 12]
    assert axes["attention_mask"] == ["batch", "past_and_new_sequence"]
    assert axes["logits"] == ["batch", "sequence", 211]
    assert next(entry.version for entry in model.opset_import if not entry.domain) == opset


def test_every_family_has_a_maker_that_exists() -> None:
    folder = Path(sys.modules["driftline.models"].__file__ or "").parent
    for entry in CATALOGUE.values():
        module, _, function = entry.maker.partition(":")
        assert f"def {function}(" in (folder / f"{module}.py").read_text(), entry.name
