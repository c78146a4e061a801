"""Compilers that take ONNX and whose rules go by name."""

from __future__ import annotations

from driftline.core.registry import import_string
from driftline.patterns.onnx_audit import Auditee

_AUDITEES = {
    "onnxruntime": "driftline.patterns.onnxruntime:OnnxRuntimeRules",
    "tvm": "driftline.patterns.tvm:TvmRules",
    "onnxscript": "driftline.patterns.onnxscript_rules:OnnxScriptRules",
}


def auditee(compiler: str) -> Auditee:
    made: Auditee = import_string(_AUDITEES[compiler])()
    return made
