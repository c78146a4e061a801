"""Changes to ONNX models that test what a rewrite rule may have forgotten to check, one function each.

A change modifies a model in place, or raises `NoProgram` if there is nothing to change. The result is another valid
model, which need not compute the same.
"""

from __future__ import annotations

from driftline.generate.changes.attributes import ATTRIBUTE_CHANGES
from driftline.generate.changes.model import ModelChange
from driftline.generate.changes.tensors import TENSOR_CHANGES
from driftline.generate.changes.wiring import WIRING_CHANGES

CHANGES: dict[str, ModelChange] = {**TENSOR_CHANGES, **WIRING_CHANGES, **ATTRIBUTE_CHANGES}
