"""Driftline finds, explains, shrinks and reports bugs in deep-learning compilers.

Run a program on several compilers, and print which of them is wrong:

    import driftline, torch
    model, x = torch.nn.Softmax(-1), torch.randn(3, 4)
    result = driftline.check(model, (x,), targets=["inductor", "onnxruntime"])
    for row in result.results:
        print(row.target, row.verdict.judgement, row.verdict.reason)

`driftline.open(store)` returns a `Workbench`, which has a method for each command: `hunt`, `diagnose`, `reduce`,
`bisect`, `report` and others. Each public name is loaded on first use, so that `import driftline` takes milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "check": "driftline.api",
    "check_script": "driftline.api",
    "open": "driftline.workbench",
    "Workbench": "driftline.workbench",
    "CheckResult": "driftline.checking.result",
    "CheckSettings": "driftline.campaign.check.settings",
    "ScriptCheck": "driftline.scenarios.check",
    "HuntSettings": "driftline.campaign.hunt.settings",
    "compare_tensors": "driftline.oracle.metrics",
    "TensorMetrics": "driftline.oracle.metrics",
    "Target": "driftline.core.target",
    "Program": "driftline.core.program",
    "Execution": "driftline.core.execution",
    "Verdict": "driftline.core.verdict",
    "Store": "driftline.store",
    "Backend": "driftline.backends.base",
    "Option": "driftline.backends.base",
    "Unsupported": "driftline.backends.base",
    "Knob": "driftline.backends.knobs",
    "ScriptCall": "driftline.core.script_call",
    "Tracker": "driftline.core.tracker",
    "Installing": "driftline.core.packages",
    "register_backend": "driftline.backends",
    "DriftlineError": "driftline.core.errors",
}

__all__ = [
    "Backend",
    "CheckResult",
    "CheckSettings",
    "DriftlineError",
    "Execution",
    "HuntSettings",
    "Installing",
    "Knob",
    "Option",
    "Program",
    "ScriptCall",
    "ScriptCheck",
    "Store",
    "Target",
    "TensorMetrics",
    "Tracker",
    "Unsupported",
    "Verdict",
    "Workbench",
    "__version__",
    "check",
    "check_script",
    "compare_tensors",
    "open",
    "register_backend",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'driftline' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from driftline.api import check as check
    from driftline.api import check_script as check_script
    from driftline.backends import register_backend as register_backend
    from driftline.backends.base import Backend as Backend
    from driftline.backends.base import Option as Option
    from driftline.backends.base import Unsupported as Unsupported
    from driftline.backends.knobs import Knob as Knob
    from driftline.campaign.check.settings import CheckSettings as CheckSettings
    from driftline.campaign.hunt.settings import HuntSettings as HuntSettings
    from driftline.checking.result import CheckResult as CheckResult
    from driftline.core.errors import DriftlineError as DriftlineError
    from driftline.core.execution import Execution as Execution
    from driftline.core.packages import Installing as Installing
    from driftline.core.program import Program as Program
    from driftline.core.script_call import ScriptCall as ScriptCall
    from driftline.core.target import Target as Target
    from driftline.core.tracker import Tracker as Tracker
    from driftline.core.verdict import Verdict as Verdict
    from driftline.oracle.metrics import TensorMetrics as TensorMetrics
    from driftline.oracle.metrics import compare_tensors as compare_tensors
    from driftline.scenarios.check import ScriptCheck as ScriptCheck
    from driftline.store import Store as Store
    from driftline.workbench import Workbench as Workbench
    from driftline.workbench import open as open
