"""Changes to ONNX models: what a rewrite rule may have forgotten to look at, one function each.

A change takes a model and alters it in place, or says that there is nothing to change in it (`NoProgram`). What comes
out is another valid model with a meaning of its own; nothing promises that it computes the same.
"""

from __future__ import annotations

from driftline.generate.changes.attributes import ATTRIBUTE_CHANGES
from driftline.generate.changes.model import ModelChange
from driftline.generate.changes.tensors import TENSOR_CHANGES
from driftline.generate.changes.wiring import WIRING_CHANGES

CHANGES: dict[str, ModelChange] = {**TENSOR_CHANGES, **WIRING_CHANGES, **ATTRIBUTE_CHANGES}
