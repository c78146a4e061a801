"""Imports the modules that a framework's tasks need before workers are forked. Each worker would take a third of a
second for it, one of torch some seconds, and a check in fresh processes starts several."""

from __future__ import annotations

import importlib

from driftline.core.registry import import_string
from driftline.oracle.reference import REFERENCES
from driftline.oracle.shadow.task import FRONT_ENDS

PLAYED = {"torch": ("torch", "onnx-player")}  # the references that a framework's workers run, besides their own
LATE = {"torch": ("torch._dynamo",)}  # modules imported when a program first runs, for seconds
TABLES = {"torch": ("driftline.oracle.shadow.torch.parts:own_decompositions",)}  # otherwise built on first use


def warm_tasks(framework: str) -> None:
    """Import the modules of a framework's tasks. Called in a nursery, whose interpreter has the framework."""
    for module in ("driftline.checking.batch_tasks", *LATE.get(framework, ())):
        importlib.import_module(module)
    for witness in PLAYED.get(framework, (framework,)):
        for table in (REFERENCES, FRONT_ENDS):
            if witness in table:
                import_string(table[witness])
    for made in TABLES.get(framework, ()):
        import_string(made)()
