"""What tasks of a framework's workers import, imported before workers are forked: each would take a third of a second
for it, those of torch some seconds, and a check in fresh processes starts several."""

from __future__ import annotations

import importlib

from driftline.core.registry import import_string
from driftline.oracle.reference import REFERENCES
from driftline.oracle.shadow.task import FRONT_ENDS

PLAYED = {"torch": ("torch", "onnx-player")}  # whose programs a framework's workers play beside its own
LATE = {"torch": ("torch._dynamo",)}  # what a framework imports by itself when a program is first played: for seconds
TABLES = {"torch": ("driftline.oracle.shadow.torch.parts:own_decompositions",)}  # made when they are first used


def warm_tasks(framework: str) -> None:
    """Called in a nursery, whose interpreter has the framework."""
    for module in ("driftline.checking.batch_tasks", *LATE.get(framework, ())):
        importlib.import_module(module)
    for witness in PLAYED.get(framework, (framework,)):
        for table in (REFERENCES, FRONT_ENDS):
            if witness in table:
                import_string(table[witness])
    for made in TABLES.get(framework, ()):
        import_string(made)()
