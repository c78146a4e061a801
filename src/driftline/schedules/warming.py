"""Called once before workers are forked: what a fresh worker would import and set up takes a seventh of a second, and
every schedule that ends its process, and every confirmation, needs a fresh one."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path


def warm_schedules(_: object = None) -> None:
    """Import the tasks, and compile and run one schedule, which sets up LLVM. It has no parallel loop: TVM starts its
    threads for one, and those would not survive the fork."""
    from driftline.schedules import tasks  # noqa: F401
    from driftline.schedules.performing import perform
    from driftline.schedules.trace import LoopAt, ScheduleStep, Trace

    split = ScheduleStep("split", loops=(LoopAt("Y", 0),), numbers=(None, 2))
    # Another release of TVM may lack what this needs; the job then says so.
    with contextlib.suppress(Exception), tempfile.TemporaryDirectory() as folder:
        perform(Trace("scale", {"n": 2, "m": 2}, (split,)), Path(folder), optimised=False, faithful=False)
