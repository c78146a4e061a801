"""Common names for operators that torch and ONNX spell differently: `relu`, `relu_(float)` and `Relu` are all `relu`.

Names with a capital first letter are those of ONNX (or of torch's layers); others are those of torch, or of the
operator table, which follows torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Operators that torch names differently from ONNX, without underscores.
_TORCH = {
    name: onnx
    for onnx, names in {
        "add": "iadd", "sub": "subtract isub rsub", "mul": "multiply imul", "div": "truediv truedivide divide itruediv",
        "matmul": "mm bmm mv", "gemm": "linear addmm", "neg": "negative", "abs": "absolute", "clip": "clamp",
        "concat": "cat concatenate", "transpose": "permute t swapaxes", "reshape": "view flatten", "less": "lt",
        "greater": "gt", "equal": "eq", "lessorequal": "le", "greaterorequal": "ge", "and": "logicaland",
        "or": "logicalor", "not": "logicalnot", "xor": "logicalxor", "max": "maximum", "min": "minimum",
        "reducesum": "sum", "reducemean": "mean", "reducemax": "amax", "reducemin": "amin", "reduceprod": "prod",
        "reducelogsumexp": "logsumexp", "gatherelements": "gather", "gather": "indexselect embedding",
        "layernormalization": "layernorm", "batchnormalization": "batchnorm", "groupnormalization": "groupnorm",
        "instancenormalization": "instancenorm", "rmsnormalization": "rmsnorm", "averagepool": "avgpool",
    }.items()
    for name in names.split()
}  # fmt: skip
_DIMENSIONS = re.compile(r"[123]d$")
_NAME = re.compile(r"[A-Za-z]\w*(?=\()|^[A-Za-z]\w*$")


def spelled_alike(operators: Iterable[str]) -> frozenset[str]:
    """Return the operators of a program by names that do not depend on the framework, without dtypes and order."""
    return frozenset(_one_name(name) for told in operators for name in _NAME.findall(told.rpartition("::")[2]))


def _one_name(name: str) -> str:
    plain = _DIMENSIONS.sub("", name.replace("_", "").lower())
    return _TORCH.get(plain, plain) if name[0].islower() else plain
