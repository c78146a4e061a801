"""Idioms and changes: every one gives a valid model, the same one for the same request."""

from __future__ import annotations

import pytest

onnx = pytest.importorskip("onnx")

from driftline.generate.base import GeneratorRequest, NoProgram  # noqa: E402
from driftline.generate.changes import CHANGES  # noqa: E402
from driftline.generate.idioms.generator import Idioms, idioms  # noqa: E402
from driftline.programs.onnx.evaluator import make_evaluator  # noqa: E402


def made(arm: str, number: int = 0) -> bytes:
    content = Idioms().make(GeneratorRequest("onnx", arm, number)).content
    assert isinstance(content, bytes)
    return content


@pytest.mark.parametrize("number", range(4))
def test_every_idiom_is_a_valid_model(number: int) -> None:
    for arm in idioms():
        model = onnx.load_model_from_string(made(arm, number))
        onnx.checker.check_model(model, full_check=True)
        make_evaluator(model)  # the reference knows its operators
        assert made(arm, number) == made(arm, number)


def test_every_change_changes_something_and_keeps_models_valid() -> None:
    applied = dict.fromkeys(CHANGES, 0)
    for arm in ("relu_clip", "conv_batch_norm", "matmul_scaled", "qdq_add", "reshape_from_shape", "gelu_erf"):
        for change in CHANGES:
            try:
                changed = made(f"{arm}~{change}")
            except NoProgram:
                continue
            onnx.checker.check_model(onnx.load_model_from_string(changed), full_check=True)
            assert changed != made(arm)
            applied[change] += 1
    assert all(applied.values()), applied


def test_programs_of_other_generators_can_be_changed() -> None:
    model = onnx.load_model_from_string(made("graph:relu~float64"))
    assert any(info.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE for info in model.graph.input)


def test_an_unknown_idiom_is_no_program() -> None:
    with pytest.raises(NoProgram, match="no idiom relu_clop"):
        made("relu_clop")
