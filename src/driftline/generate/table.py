"""The operator table: every file of `ops/` named here adds operators, and `tf_forms/` adds their TensorFlow forms."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from driftline.generate.operator import Operator
from driftline.generate.tf_forms import tf_form

_FILES = """
    activations casts comparisons complex_numbers convolution elementwise indexing inplace integers matmul norms
    ordering pooling recurrent reductions regularisation resize scalars scans shapes slicing softmax
""".split()

OPERATORS: dict[str, Operator] = {}
for _name in _FILES:
    for _operator in import_module(f"driftline.generate.ops.{_name}").OPERATORS:
        assert _operator.name not in OPERATORS, f"{_operator.name} is twice in the table"
        OPERATORS[_operator.name] = replace(_operator, tf=tf_form(_operator))
