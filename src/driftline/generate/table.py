"""The operator table: every file of `ops/` adds its rows."""

from __future__ import annotations

from driftline.generate.operator import Operator
from driftline.generate.ops import (
    activations,
    casts,
    comparisons,
    complex_numbers,
    convolution,
    elementwise,
    indexing,
    inplace,
    integers,
    matmul,
    norms,
    ordering,
    pooling,
    recurrent,
    reductions,
    regularisation,
    resize,
    scalars,
    scans,
    shapes,
    slicing,
    softmax,
)

_FILES = (
    activations,
    casts,
    comparisons,
    complex_numbers,
    convolution,
    elementwise,
    indexing,
    inplace,
    integers,
    matmul,
    norms,
    ordering,
    pooling,
    recurrent,
    reductions,
    regularisation,
    resize,
    scalars,
    scans,
    shapes,
    slicing,
    softmax,
)

OPERATORS: dict[str, Operator] = {}
for _file in _FILES:
    for _operator in _file.OPERATORS:
        assert _operator.name not in OPERATORS, f"{_operator.name} is twice in the table"
        OPERATORS[_operator.name] = _operator
