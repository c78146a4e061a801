"""Prepares a TVM process before workers are forked. Importing and setup take a seventh of a second, and every
confirmation, and every schedule that ends its process, needs a fresh worker."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path


def warm_schedules(_: object = None) -> None:
    """Import the tasks, and compile and run one schedule, which sets up LLVM. The schedule has no parallel loop, since
    TVM's threads would not survive the fork."""
    from driftline.schedules import tasks  # noqa: F401
    from driftline.schedules.performing import perform
    from driftline.schedules.trace import LoopAt, ScheduleStep, Trace

    split = ScheduleStep("split", loops=(LoopAt("Y", 0),), numbers=(None, 2))
    # Another release of TVM may lack what this needs; the job then says so.
    with contextlib.suppress(Exception), tempfile.TemporaryDirectory() as folder:
        perform(Trace("scale", {"n": 2, "m": 2}, (split,)), Path(folder), optimised=False, faithful=False)
