"""Models that are not valid at their opset: they are told apart, no compiler is blamed for them, and we write none."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from driftline.checking.batch import Screening
from driftline.checking.batch_requests import NothingMade, ProgramRequest
from driftline.checking.checker import Checker
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.program import Program, file_digest
from driftline.core.target import Target
from driftline.core.tensors import TensorSpec
from driftline.core.verdict import Judgement
from driftline.execute.pool import Pool
from driftline.generate import GENERATORS
from driftline.generate.base import GeneratorRequest, NoProgram
from driftline.programs.onnx.valid import fault_at_opset
from driftline.programs.onnx.words import WORDS, words_at
from typed import typed

SCATTER = """<ir_version: 8, opset_import: ["": {opset}]> g (float[4] x, float[2] u) => (float[4] y)
    <int64[2] i = {{0, 2}}> {{ y = ScatterElements<axis=0, reduction="{how}">(x, i, u) }}"""
# Texts that may be anything: element types by name, equations, patterns, languages.
FREE_TEXT = {
    ("Cast", "to"), ("Constant", "value_string"), ("Einsum", "equation"), ("RegexFullMatch", "pattern"),
    ("StringNormalizer", "locale"), ("StringSplit", "delimiter"),
}  # fmt: skip


def scatter(opset: int, how: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(SCATTER.format(opset=opset, how=how))


def one_node(opset: int, dtype: int, operator: str, **attributes: object) -> onnx.ModelProto:
    node = helper.make_node(operator, ["x"], ["y"], **attributes)
    values = [helper.make_tensor_value_info(name, dtype, [2]) for name in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def schemas() -> list[onnx.defs.OpSchema]:
    return [schema for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""]


def test_every_attribute_with_a_text_is_listed_or_free() -> None:
    texts = {
        (schema.name, name)
        for schema in schemas()
        for name, declared in schema.attributes.items()
        if declared.type == onnx.defs.OpSchema.AttrType.STRING
    }
    assert texts - FREE_TEXT == set(WORDS)


def test_the_words_of_each_version_are_those_of_its_description() -> None:
    """Each listed word stands in the description, and a quoted word that any version knows is not missing."""
    for schema in schemas():
        for name, declared in schema.attributes.items():
            versions = WORDS.get((schema.name, name))
            if versions is None:
                continue
            words = words_at(versions, schema.since_version)
            ever = {word for known in versions.values() for word in known}
            text = re.sub(r"\((i\.e\.|for example)[^)]*\)", "", declared.description)
            described = set(re.findall(r"\w+", text)) & ever
            assert described == set(words), (schema.name, schema.since_version, name)
            if declared.default_value.s and declared.default_value.s != b"foward":  # so spelled in GRU of opset 1
                assert declared.default_value.s.decode() in words


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (scatter(17, "max"), "ScatterElements has reduction='max' only from opset 18 on"),
        (scatter(18, "max"), ""),
        (scatter(18, "most"), "ScatterElements has reduction='most', which is none of none, add, mul, max, min"),
        (one_node(12, TensorProto.FLOAT, "Gelu"), "No Op registered for Gelu with domain_version of 12"),
        (one_node(18, TensorProto.FLOAT, "Relu", sharp=1), "Unrecognized attribute: sharp for operator Relu"),
        (one_node(13, TensorProto.INT32, "Relu"), "Relu: X typestr: T, has unsupported type: tensor(int32)"),
        (one_node(14, TensorProto.INT32, "Relu"), ""),
    ],
)
def test_a_model_is_held_to_its_own_opset(model: onnx.ModelProto, told: str) -> None:
    opset = model.opset_import[0].version
    assert fault_at_opset(model) == (told and f"the model is not valid at its opset {opset}: {told}")


def test_a_word_of_an_earlier_opset_is_told_apart() -> None:
    text = """<ir_version: 8, opset_import: ["": {opset}]> g (float[2] x, float[1] s) => (float[N] y)
        {{ y = Resize<mode="nearest", coordinate_transformation_mode="tf_half_pixel_for_nn">(x, , s) }}"""
    assert fault_at_opset(onnx.parser.parse_model(text.format(opset=13))).endswith("only up to opset 12")


def test_check_refuses_a_model_with_a_word_of_a_later_opset(tmp_path: Path) -> None:
    path = tmp_path / "scatter.onnx"
    onnx.save(scatter(17, "max"), str(path))
    ran = typed("check", str(path), "--targets", "onnxruntime", "--store", str(tmp_path / "store"))
    assert ran.returncode == 2
    told = "the model is not valid at its opset 17: ScatterElements has reduction='max' only from opset 18 on"
    assert told in " ".join(ran.stderr.split())


def test_no_compiler_is_blamed_for_an_invalid_model(checker: Checker, tmp_path: Path) -> None:
    """TVM raises an error for the model of opset 17, which somebody changed after it was opened."""
    pytest.importorskip("tvm")
    path = tmp_path / "scatter.onnx"
    onnx.save(scatter(17, "max"), str(path))
    specs = (TensorSpec("x", "float32", (4,)), TensorSpec("u", "float32", (2,)))
    program = Program("onnx", "onnx", file_digest(path), path, "scatter", inputs=specs, outputs=("y",))
    sample = Inputs({"x": np.zeros(4, np.float32), "u": np.ones(2, np.float32)}, "test")
    (result,) = checker.check(Case(program, (sample,), (Target("tvm"),), CheckOptions())).results
    assert result.verdict.judgement is Judgement.INCONCLUSIVE
    assert result.verdict.reason.startswith("the model is not valid at its opset 17")


def test_the_exporter_is_blamed_for_an_invalid_model_that_a_compiler_refuses(tmp_path: Path) -> None:
    """The pad that goes round comes with opset 19, and torch.onnx writes it into models of opset 18."""
    pytest.importorskip("tvm")
    pad = 'torch.nn.functional.pad(x, (1, 1), mode="circular")'
    text = f"import torch\n\n\ndef make():\n    return lambda x: {pad}, (torch.arange(6.0).reshape(1, 1, 6),)\n"
    (tmp_path / "pad.py").write_text(text)
    ran = typed("check", f"{tmp_path / 'pad.py'}:make", "--targets", "tvm", "--store", str(tmp_path / "store"))
    assert ran.returncode == 1, ran.stderr
    assert "torch.onnx-" in ran.stdout and "tvm-" not in ran.stdout


@pytest.mark.parametrize("name", ["idioms", "graph"])
def test_generators_write_valid_models(name: str) -> None:
    generator, found = GENERATORS.get(name), 0
    for arm in generator.arms("onnx"):
        try:
            made = generator.make(GeneratorRequest("onnx", arm, 0))
        except NoProgram:
            continue
        assert isinstance(made.content, bytes)
        assert not (fault := fault_at_opset(onnx.load_model_from_string(made.content))), f"{arm}: {fault}"
        found += 1
    assert found > 10


def test_a_changed_model_that_is_not_valid_is_not_run(pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "changed.onnx"
    onnx.save(scatter(17, "max"), str(path))
    with Screening(pool, "onnx") as screening:
        (made,) = screening.prepare([ProgramRequest("mutate", "", 0, ("random",), "0", model=str(path))])
    assert isinstance(made, NothingMade)
    assert made.reason.startswith("the model is not valid at its opset 17")
