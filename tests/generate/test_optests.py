"""Programs made of operator tests run on the inputs that come with them, and are the same in every process."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator

from driftline.generate import GENERATORS
from driftline.generate.base import Blueprint, GeneratorRequest, NoProgram
from driftline.generate.optests_torch import make_torch
from driftline.generate.torch_text import example_text
from driftline.inputs.strategies import INPUTS
from driftline.programs.onnx.evaluator import make_evaluator
from driftline.programs.torch_tensors import array_from_tensor, tensor_from_array

OPTESTS = GENERATORS.get("optests")


def made(form: str, arm: str, number: int, **more: Any) -> Blueprint | None:
    try:
        return OPTESTS.make(GeneratorRequest(form, arm, number, **more))
    except NoProgram:
        return None


def some(form: str, arms: list[str], numbers: int) -> list[Blueprint]:
    found = [made(form, arm, number) for arm in arms for number in range(numbers)]
    programs = [blueprint for blueprint in found if blueprint]
    assert len(programs) > 0.95 * len(found)
    return programs


def run(blueprint: Blueprint, arrays: dict[str, Any]) -> Any:
    space: dict[str, Any] = {}
    exec(blueprint.content, space)
    model, example = space["program"]()
    assert [(t.dtype, t.shape) for t in example] == [(tensor_from_array(a).dtype, a.shape) for a in arrays.values()]
    placed = []
    for tensor, array in zip(example, arrays.values(), strict=True):
        if tensor.is_contiguous():
            placed.append(tensor_from_array(array))
        else:
            placed.append(torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype))
            placed[-1].copy_(tensor_from_array(array))
    with torch.no_grad():
        return model(*placed)


@pytest.fixture(scope="module")
def torch_programs() -> list[Blueprint]:
    return some("torch", [*OPTESTS.arms("torch")[::26], *["pairs"] * 3], 2)


def test_torch_has_most_of_the_operators() -> None:
    arms = OPTESTS.arms("torch")
    assert len(arms) > 600 and len(set(arms)) == len(arms)
    assert {"add", "nn.functional.conv2d", "linalg.svd", "T", "nn.functional.pad:reflect", "pairs"} <= set(arms)
    assert not {"randn", "nn.functional.dropout", "empty", "item"} & set(arms)


def test_torch_programs_run_on_their_example(torch_programs: list[Blueprint]) -> None:
    for blueprint in torch_programs:
        assert run(blueprint, dict(blueprint.example)) is not None
        assert "torch.testing" not in str(blueprint.content)
        assert list(blueprint.example) == [plan.spec.name for plan in blueprint.inputs]
        assert [operator for operator, _ in blueprint.coverage] == list(blueprint.operators)


def test_torch_programs_run_on_other_inputs(torch_programs: list[Blueprint]) -> None:
    refused = []
    for blueprint in torch_programs:
        for name in ("random", "specials", "boundary"):
            arrays = INPUTS.get(name).draw(blueprint.inputs, "0", blueprint.edges).arrays
            try:
                run(blueprint, arrays)
            except (RuntimeError, ZeroDivisionError) as error:
                refused.append((blueprint.operators, name, error))
    assert len(refused) <= 0.02 * 3 * len(torch_programs), refused


def test_a_program_shows_the_call_itself() -> None:
    blueprint = made("torch", "nn.functional.pad:constant", 1)
    assert blueprint and "return torch.nn.functional.pad(x0, " in str(blueprint.content)
    transposed = made("torch", "T", 0)
    assert transposed and "return x0.T" in str(transposed.content)


def test_matrices_keep_the_numbers_of_the_sample() -> None:
    blueprint = made("torch", "linalg.cholesky", 3)
    assert blueprint and [plan.values for plan in blueprint.inputs] == ["like"]


@pytest.mark.parametrize("numbers", [True, False])
def test_layouts_of_samples_are_kept(numbers: bool) -> None:
    for tensor in (torch.arange(6.0).view(2, 3).t(), torch.arange(8)[1::2], torch.ones(3, 1).expand(3, 2)):
        numbers = numbers and 0 not in tensor.stride()
        again = eval(example_text(tensor, numbers=numbers), {"torch": torch})
        assert (again.shape, again.stride(), again.dtype) == (tensor.shape, tensor.stride(), tensor.dtype)
        assert again.storage_offset() == tensor.storage_offset()
        assert not numbers or torch.equal(again, tensor)


def test_gradients_are_asked_for_where_there_are_some(torch_programs: list[Blueprint]) -> None:
    with_gradient = [blueprint for blueprint in torch_programs if blueprint.grad]
    assert 0.02 < len(with_gradient) / len(torch_programs) < 0.3
    for blueprint in with_gradient:
        assert blueprint.inputs[0].spec.dtype in ("float32", "float64", "int64", "bool")


def test_pairs_pass_a_result_on() -> None:
    blueprint = made("torch", "sum>exp", 0)
    assert blueprint and blueprint.operators == ("sum", "exp")
    assert "v0 = torch.sum(x0" in str(blueprint.content) and "return torch.exp(v0" in str(blueprint.content)
    expected = torch.exp(run(made_single_of(blueprint), dict(blueprint.example)))
    got = array_from_tensor(run(blueprint, dict(blueprint.example)))
    assert np.array_equal(got, array_from_tensor(expected), equal_nan=True)


def made_single_of(pair: Blueprint) -> Blueprint:
    """The first half of a pair."""
    text = str(pair.content)
    start = text.index("    return torch.exp(v0")
    text = text[:start] + "    return v0" + text[text.index("\n", start) :]
    return Blueprint(pair.form, text, pair.inputs, pair.operators[:1], pair.coverage[:1])


@pytest.mark.parametrize("form", ["torch", "onnx"])
def test_avoided_dtypes_are_not_used(form: str) -> None:
    arm = {"torch": "neg", "onnx": "Add"}[form]
    free = {dtype for number in range(60) if (b := made(form, arm, number)) for _, dtype in b.coverage}
    avoid = frozenset(f"{arm} {dtype}" for dtype in free - {"int8"})
    rest = {dtype for number in range(60) if (b := made(form, arm, number, avoid=avoid)) for _, dtype in b.coverage}
    assert "int8" in free and len(free) > 3 and rest == {"int8"}


@pytest.mark.slow
def test_the_text_does_not_depend_on_the_process() -> None:
    arms = ["meshgrid:list_of_tensors", "nn.functional.conv2d", "scatter", "linalg.solve", "pairs", "einsum"]
    code = (
        "import hashlib, sys; from driftline.generate.optests_torch import make_torch\n"
        f"made = [make_torch(arm, str(seed)) for arm in {arms} for seed in range(2)]\n"
        "data = b''.join(b.content.encode() + b''.join(a.tobytes() for a in b.example.values()) for b in made)\n"
        "print(hashlib.sha256(data).hexdigest())"
    )
    other = subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": "1"}, capture_output=True, text=True)
    programs = [make_torch(arm, str(seed)) for arm in arms for seed in range(2)]
    data = b"".join(str(b.content).encode() + b"".join(a.tobytes() for a in b.example.values()) for b in programs)
    assert other.stdout.strip() == hashlib.sha256(data).hexdigest(), other.stderr


def test_onnx_programs_run_on_their_example() -> None:
    arms = OPTESTS.arms("onnx")
    assert len(arms) > 150 and not {"RandomNormal", "ImageDecoder"} & set(arms)
    for blueprint in some("onnx", [*arms[::6], *["pairs"] * 10], 2):
        model = onnx.load_model_from_string(blueprint.content)
        onnx.checker.check_model(model)
        if not {"Scatter", "Scan"} & set(blueprint.operators):  # the reference does not know the oldest versions
            ReferenceEvaluator(model).run(None, dict(blueprint.example))


@pytest.mark.parametrize("strategy", ["random", "specials"])
def test_what_onnx_programs_say_of_their_results_is_true(strategy: str) -> None:
    """Also on other inputs than those of the test: a compiler may rely on it."""
    lies = {}
    for arm in OPTESTS.arms("onnx"):
        blueprint = made("onnx", arm, 0)
        if blueprint is None or arm == "pairs":
            continue
        assert isinstance(blueprint.content, bytes)
        model = onnx.load_model_from_string(blueprint.content)
        drawn = INPUTS.get(strategy).draw(blueprint.inputs, arm, blueprint.edges, None).arrays
        try:
            with np.errstate(all="ignore"):
                results = make_evaluator(model).run(None, drawn)
        except Exception:  # numbers that do not go together, which is another test's concern
            continue
        for result, info in zip(results, model.graph.output, strict=True):
            kind = info.type.tensor_type
            said = [size.dim_value if size.HasField("dim_value") else None for size in kind.shape.dim]
            makes = [None if size is None else got for size, got in zip(said, np.shape(result), strict=False)]
            if kind.HasField("shape") and (len(said) != np.ndim(result) or said != makes):
                lies[arm] = f"says {said}, makes {np.shape(result)}"
    assert not lies


def test_onnx_pairs_pass_a_result_on() -> None:
    blueprint = made("onnx", "MatMul>Relu", 0)
    assert blueprint and blueprint.operators == ("MatMul", "Relu")
    single = [np.matmul(*blueprint.example.values())]
    (result,) = ReferenceEvaluator(onnx.load_model_from_string(blueprint.content)).run(None, dict(blueprint.example))
    assert np.allclose(result, np.maximum(single[0], 0), rtol=1e-4)


def test_unknown_arms_have_no_program() -> None:
    assert made("torch", "no_such_operator", 0) is None
    assert made("onnx", "NoSuchOperator", 0) is None
    assert made("jax", "add", 0) is None


_DIGEST = """
import contextlib, hashlib
import driftline.generate.optests_onnx as optests
if {slowly}:
    optests.quick_pooling = optests._without_snippets = contextlib.nullcontext
digest = hashlib.sha256()
for operator, tests in optests.node_tests().items():
    for test in tests:
        digest.update(f"{{operator}} {{test.name}}".encode() + test.model.SerializeToString(deterministic=True))
        for array in [*test.inputs.values(), *test.outputs]:
            digest.update(f"{{array.dtype}} {{array.shape}}".encode() + array.tobytes())
print(len(optests.node_tests()), digest.hexdigest())
"""


@pytest.mark.slow
def test_node_tests_are_those_that_onnx_makes_slowly() -> None:
    made = [
        subprocess.run([sys.executable, "-c", _DIGEST.format(slowly=slowly)], capture_output=True, text=True)
        for slowly in (True, False)
    ]
    assert made[0].returncode == 0 and int(made[0].stdout.split()[0]) > 100, made[0].stderr
    assert made[0].stdout == made[1].stdout
