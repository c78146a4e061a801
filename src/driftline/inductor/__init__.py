"""The TorchInductor lab: for people who build a backend for `torch.compile`, or debug one.

The public names; each is loaded on first use, so that `import driftline.inductor` imports no torch. The lab writes into
*lab folders*: each run (a capture, a diff, a guard inspection, a mock backend) has a folder of its own there, with a
manifest (`lab.py`). Everything that imports torch runs in the user's own process, or in a worker (`tasks.py`).
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "AcceleratorAdapter": "driftline.inductor.adapters",
    "AcceleratorCapabilities": "driftline.inductor.adapters",
    "Constraint": "driftline.hardware.constraint",
    "ConstraintReport": "driftline.hardware.report",
    "ConstraintViolation": "driftline.hardware.violation",
    "ConstraintWarning": "driftline.hardware.violation",
    "DtypeConstraint": "driftline.hardware.constraints.dtype",
    "LayoutConstraint": "driftline.hardware.constraints.layout",
    "LimitsConstraint": "driftline.hardware.constraints.limits",
    "MemoryConstraint": "driftline.hardware.constraints.memory",
    "OperatorConstraint": "driftline.hardware.constraints.operators",
    "PeakMemoryConstraint": "driftline.hardware.constraints.memory",
    "Profile": "driftline.hardware.profile",
    "ReductionConstraint": "driftline.hardware.constraints.limits",
    "ShapeConstraint": "driftline.hardware.constraints.shape",
    "DeviceArithmetic": "driftline.hardware.arithmetic",
    "Broken": "driftline.hardware.constraint",
    "Violation": "driftline.hardware.violation",
    "aot_mock_backend": "driftline.inductor.mock",
    "load_profile": "driftline.hardware.loading",
    "mock_backend": "driftline.inductor.mock",
    "register_accelerator": "driftline.inductor.adapters",
    "register_constraint": "driftline.hardware.constraint",
    "setting": "driftline.hardware.constraint",
    "Capture": "driftline.inductor.capturing",
    "GuardInspector": "driftline.inductor.guards",
    "GuardReport": "driftline.inductor.guards",
    "KernelDiffHarness": "driftline.inductor.kernel_diff",
    "KernelDiffReport": "driftline.inductor.diff_report",
    "Lab": "driftline.inductor.lab",
    "LabRun": "driftline.inductor.lab",
    "capture": "driftline.inductor.capturing",
    "compare_tensors": "driftline.oracle.metrics",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'driftline.inductor' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
