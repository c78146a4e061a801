"""Turn an ONNX model, or the text of a program, into a program with the plan of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftline.core.tensors import ANY_SIZE, Arrays, TensorSpec, spec_of
from driftline.generate.base import Blueprint
from driftline.inputs.plan import InputPlan


def blueprint_of_model(model: Any, plans: Sequence[InputPlan] = ()) -> Blueprint:
    """Return an ONNX model as a program. `plans` are the known plans of its inputs."""
    from onnx import helper

    known = {plan.spec.name: plan for plan in plans}
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = []
    for info in model.graph.input:
        if info.name in constants:
            continue
        tensor = info.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
        sizes = tuple(d.dim_value if d.HasField("dim_value") else ANY_SIZE for d in tensor.shape.dim)
        inputs.append(_plan(known.get(info.name), TensorSpec(info.name, dtype, sizes)))
    operators = tuple(node.op_type for node in model.graph.node)
    first = inputs[0].spec.dtype if inputs else "float32"
    return Blueprint(
        form="onnx",
        content=model.SerializeToString(deterministic=True),
        inputs=tuple(inputs),
        operators=operators,
        coverage=tuple((operator, first) for operator in operators),
    )


def blueprint_of_text(text: str, form: str, example: Arrays, coverage: Sequence[tuple[str, str]]) -> Blueprint:
    """Return a text program. `text` has a factory called `program`, whose example inputs are `example`."""
    return Blueprint(
        form=form,
        content=text,
        inputs=tuple(InputPlan(spec_of(name, array), "like", array) for name, array in example.items()),
        operators=tuple(operator for operator, _ in coverage),
        coverage=tuple(coverage),
    )


def _plan(old: InputPlan | None, spec: TensorSpec) -> InputPlan:
    """Return the plan of an input. Symbolic sizes get the sizes of the old plan; an example is kept if it still
    fits."""
    if old is None:
        return InputPlan(spec, "like")
    shape = tuple(
        was if size == ANY_SIZE else size for size, was in zip(spec.shape, old.spec.shape, strict=True)
    ) if len(spec.shape) == len(old.spec.shape) else spec.shape  # fmt: skip
    example = old.example if old.example is not None and old.example.shape == shape else None
    return InputPlan(TensorSpec(spec.name, spec.dtype, shape), old.values, example)
