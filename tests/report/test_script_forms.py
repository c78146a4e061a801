"""Every way of writing a script runs: nothing is found where a compiler is right, and another result is seen."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from driftline.core.evidence import NOTHING, Evidence
from driftline.core.program import Program, SourceBundle, file_digest
from driftline.core.target import Target
from driftline.core.tensors import Arrays
from driftline.core.verdict import Kind
from driftline.execute.environments import find_environment
from driftline.report.export.clean_run import HERE, CleanRun, run_clean
from driftline.report.scripts.check import check_for
from driftline.report.scripts.failure import ShownFailure
from driftline.report.scripts.recipe import Recipe
from driftline.report.scripts.recipe_onnx import onnx_recipe
from driftline.report.scripts.recipe_source import source_recipe
from driftline.report.scripts.render import check_script, make_recipe

FUNCTION = """
import torch


def model(x, y):
    return torch.relu(x) + y, x * 2


def program():
    return model, (torch.tensor([[1.0, -2.0], [3.0, 4.0]]), torch.ones(2))
"""
MODULE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 3)

    def forward(self, x):
        return self.linear(x).relu()


def program():
    torch.manual_seed(0)
    return Net().eval(), (torch.tensor([[1.0, -2.0], [3.0, 4.0]]),)
"""
CALLED = """
import torch
from torch import nn


def program():
    layers = []
    for _ in range(2):
        layers.append(nn.Linear(2, 2))
    return nn.Sequential(*layers).eval(), (torch.tensor([[1.0, -2.0], [3.0, 4.0]]),)
"""
CALLED_FUNCTION = """
import torch


def program():
    return lambda x: torch.nn.functional.relu(x) * 2, torch.tensor([[1.0, -2.0], [3.0, 4.0]])
"""
X = np.array([[1, -2], [3, 4]], np.float32)
PROGRAMS: dict[str, tuple[str, Arrays]] = {
    "function": (FUNCTION, {"x": X, "y": np.ones(2, np.float32)}),
    "module": (MODULE, {"x": X}),
    "called": (CALLED, {"x": X}),
    "called function": (CALLED_FUNCTION, {"x": X}),
}
SLOW = (
    "torchscript:mode=trace", "aotinductor", "executorch", "executorch:delegate=xnnpack", "xla", "xla:opt=0", "tflite",
    "onnxruntime", "openvino", "tvm", "iree", "aot_eager",
)  # fmt: skip


def recipe_of(name: str, target: str, *, grad: bool = False) -> Recipe:
    text, arrays = PROGRAMS[name]
    bundle = SourceBundle("p.py", "program", {"p.py": text})
    return source_recipe(bundle, "torch", arrays, Target.parse(target), own_inputs=True, grad=grad)


def assert_tells(recipe: Recipe, wrong: str, python: str = HERE) -> CleanRun:
    """It ends with 0 as it is, and says BUG when the expected result is another one. Returns the second run."""
    check = check_for(ShownFailure(Kind.WRONG_VALUE, NOTHING), recipe)
    ran = run_clean(check_script(recipe, check), python=python)
    assert ran.status == 0, ran.errors + check_script(recipe, check)
    other = replace(recipe, expected=wrong.format(recipe.expected))
    ran = run_clean(check_script(other, check), python=python)
    assert ran.shows_bug, ran.errors
    return ran


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("torchscript", "function"),
        *(pytest.param(target, name, marks=pytest.mark.slow) for target in SLOW for name in PROGRAMS),
    ],
)
def test_torch_programs(target: str, name: str) -> None:
    python = HERE
    if target == "tflite":
        environment = find_environment(("litert-torch",), None)
        if environment is None:
            pytest.skip("no environment with litert-torch")
        python = environment.python
    recipe = recipe_of(name, target)
    tensors = "tree_map(torch.neg, {})" if recipe.flavour == "torch" else "[-array for array in {}]"
    imports = (*recipe.imports, "from torch.utils._pytree import tree_map")
    assert_tells(replace(recipe, imports=imports), tensors, python)


@pytest.mark.parametrize(
    "name", ["module", *(pytest.param(name, marks=pytest.mark.slow) for name in ("function", "called"))]
)
def test_gradients_of_inputs_and_weights(name: str) -> None:
    recipe = recipe_of(name, "aot_eager", grad=True)
    wrong = "(lambda result, gradients: (result, [-g for g in gradients]))(*{})"
    ran = assert_tells(recipe, wrong)
    results, tensors = {"function": (2, 4), "module": (1, 4), "called": (1, 6)}[name]  # with inputs and weights
    wrong_ones = {line.split(" [")[0] for line in ran.output.splitlines()}
    assert wrong_ones <= {f"output {at}" for at in range(results, tensors)} and f"output {tensors - 1}" in wrong_ones


def test_inputs_that_are_changed() -> None:
    """The compiled program must change its inputs as the program itself does."""
    text = "import torch\n\n\ndef model(x):\n    x.add_(1)\n    return x * 2\n\n\n"
    text += "def program():\n    return model, (torch.zeros(3),)\n"
    bundle = SourceBundle("p.py", "program", {"p.py": text})
    recipe = source_recipe(bundle, "torch", {"x": X}, Target.parse("aot_eager"), own_inputs=True)
    failing = ShownFailure(Kind.WRONG_VALUE, Evidence(output="mutated:x"))
    assert run_clean(check_script(recipe, check_for(failing, recipe))).status == 0
    forgetful = replace(recipe, got="model(*[x.clone() for x in copy.deepcopy(inputs)])")
    ran = run_clean(check_script(forgetful, check_for(failing, forgetful)))
    assert ran.shows_bug and "inputs afterwards, expected: [tensor([1., 1., 1.])]" in ran.output


def test_a_module_that_counts_its_calls() -> None:
    """The compiled module must start where the program itself has started."""
    text = MODULE.replace("self.linear = nn.Linear(2, 3)", 'self.register_buffer("calls", torch.zeros(2))')
    text = text.replace("return self.linear(x).relu()", "self.calls.add_(1)\n        return x + self.calls")
    bundle = SourceBundle("p.py", "program", {"p.py": text})
    recipe = source_recipe(bundle, "torch", {}, Target.parse("aot_eager"), own_inputs=True)
    check = check_for(ShownFailure(Kind.WRONG_VALUE, NOTHING), recipe)
    ran = run_clean(check_script(recipe, check))
    assert ran.status == 0, ran.output + ran.errors


@pytest.mark.parametrize("mode", ["script", "trace"])
def test_torchscript_warms_up_on_copies_of_inputs_that_are_changed(mode: str) -> None:
    """The program itself in the place of the compiled graph must pass, however often it is run."""
    text = "import torch\n\n\ndef model(x):\n    x -= 1\n    return x * 1\n\n\n"
    text += "def program():\n    return model, (torch.tensor([1.0, -2.0]),)\n"
    bundle = SourceBundle("p.py", "program", {"p.py": text})
    recipe = source_recipe(bundle, "torch", {}, Target.parse(f"torchscript:mode={mode}"), own_inputs=True)
    check = check_for(ShownFailure(Kind.WRONG_VALUE, NOTHING), recipe)
    script = check_script(recipe, check)
    assert run_clean(script).status == 0
    taken = re.search(r"graph = (torch\.jit\.(?:script|trace)\(.*\))", script)
    assert taken
    as_it_is = run_clean(script.replace(taken[1], "function"))
    assert as_it_is.status == 0, as_it_is.errors


@pytest.mark.slow
def test_an_exported_program_is_packed_into_the_script(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    making = f"{FUNCTION}\n\nclass M(torch.nn.Module):\n    forward = staticmethod(model)\n\n"
    making += f"torch.export.save(torch.export.export(M(), program()[1]), {str(path)!r})\n"
    assert run_clean(making).status == 0
    program = Program("torch", "torch", file_digest(path), path, "m.pt2")
    arrays = PROGRAMS["function"][1]
    recipe = make_recipe(program, arrays, Target.parse("aot_eager"))
    assert not recipe.files and str(tmp_path) not in check_script(
        recipe, check_for(ShownFailure(Kind.ERROR, NOTHING), recipe)
    )
    imports = (*recipe.imports, "from torch.utils._pytree import tree_map")
    assert_tells(replace(recipe, imports=imports), "tree_map(torch.neg, {})")


@pytest.mark.slow
def test_iree_shows_unsigned_numbers_as_they_are(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["": 18]> g (uint8[2] x) => (uint8[2] y) { y = Max(x, x) }'
    onnx.save(onnx.parser.parse_model(text), str(tmp_path / "m.onnx"))
    program = Program("onnx", "onnx", file_digest(tmp_path / "m.onnx"), tmp_path / "m.onnx", "m.onnx")
    recipe = onnx_recipe(program, {"x": np.array([200, 3], np.uint8)}, Target.parse("iree"))
    ran = assert_tells(recipe, "[array + 1 for array in {}]")
    assert "expected 201.0, got 200.0" in ran.output


def test_weights_of_four_bits(tmp_path: Path) -> None:
    """numpy has no such type: the script must import what has it."""
    weights = onnx.helper.make_tensor("w", onnx.TensorProto.INT4, [4, 1], [-8, 7, 1, 0])
    text = (
        '<ir_version: 10, opset_import: ["": 21]> g (float[4,1] x) => (float[4,1] y) <float s = {0.5}>'
        " { d = DequantizeLinear(w, s) y = Add(x, d) }"
    )
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(weights)
    onnx.save(model, str(tmp_path / "m.onnx"))
    program = Program("onnx", "onnx", file_digest(tmp_path / "m.onnx"), tmp_path / "m.onnx", "m.onnx")
    recipe = onnx_recipe(program, {"x": np.zeros((4, 1), np.float32)}, Target.parse("onnxruntime"))
    check = f"print({recipe.expected}[0].reshape(-1).tolist())"
    ran = run_clean("\n".join([*recipe.imports, *recipe.definitions, *recipe.setup, check]))
    assert "[-4.0, 3.5, 0.5, 0.0]" in ran.output, ran.errors
