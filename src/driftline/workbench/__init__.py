"""`driftline.open(store)`: everything the command line does with a store, from Python.

    with driftline.open(".driftline") as bench:
        result = bench.check("model.onnx", targets=["onnxruntime"])
        bench.hunt(seconds=60, targets=["onnxruntime"])
        for bug in bench.bugs():
            bench.reduce(bug.id, seconds=60)
        bench.report("report.html")

Each method is one call of the engine, and returns its typed result. A `listener` hears of what happens meanwhile: the
events of `driftline/events.py`.
"""

from __future__ import annotations

from driftline.workbench.bench import Workbench, open
from driftline.workbench.explaining import FailingSettings

__all__ = ["FailingSettings", "Workbench", "open"]
