"""Type rules on what a mutation may leave behind: the attributes of one tensor with another that they do not fit."""

from __future__ import annotations

import random

import pytest

from driftline.generate.graph import TensorType
from driftline.generate.operator import Draw, Invalid, Operator
from driftline.generate.table import OPERATORS

FAR = 9
SHAPE = (2, 3, 4, 5)


def _first(operator: Operator) -> TensorType | None:
    """An input that the operator takes."""
    for language in ("torch", "onnx", "jnp"):
        form = operator.form(language)
        for rank in range(len(SHAPE), 0, -1):
            first = TensorType(form.dtypes[0], SHAPE[:rank]) if form else None
            if first and operator.takes(language, first):
                return first
    return None


def _drawn(operator: Operator) -> tuple[TensorType, dict[str, object]] | None:
    """For operators of one input that work along an axis: that input, and attributes that fit it."""
    first = _first(operator)
    if first is None:
        return None
    try:
        needs, attributes = operator.draw(Draw(random.Random(0)), first)
    except Invalid:
        return None
    return (first, attributes) if not needs and isinstance(attributes.get("axis"), int) else None


ALONG = {name: drawn for name, operator in OPERATORS.items() if (drawn := _drawn(operator))}


def test_there_are_many() -> None:
    assert len(ALONG) > 30


@pytest.mark.parametrize("name", ALONG)
def test_an_axis_that_is_not_there_is_refused(name: str) -> None:
    first, attributes = ALONG[name]
    assert OPERATORS[name].infer([first], attributes)
    with pytest.raises(Invalid):
        OPERATORS[name].infer([first], {**attributes, "axis": FAR})
