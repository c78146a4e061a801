"""Run by `test_answered.py` in a process of its own, since it imports TVM: when is a schedule compiled again?"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from driftline.schedules.naming import FailureLike
from driftline.schedules.performing import perform
from driftline.schedules.trace import LoopAt, ScheduleStep, Trace

SPLIT = ScheduleStep("split", loops=(LoopAt("Y", 0),), numbers=(None, 4))
UNROLL = ScheduleStep("unroll", loops=(LoopAt("Y", 1),))
PARALLEL = ScheduleStep("parallel", loops=(LoopAt("Y", 0),))
PARTITION = ScheduleStep("loop_partition", loops=(LoopAt("Y", 1),), numbers=(1, None))
ARGMAX = Trace("argmax", {"n": 3, "m": 5})
LET_TWICE = ScheduleStep("loop_partition", loops=(LoopAt("Y", 0),), numbers=(1, None))
RENAME = ScheduleStep("transform_block_layout", ("Y",), numbers=(0, 1), word="permute")
PLAIN = Trace("scale", {"n": 4, "m": 8})


def compiled(trace: Trace, shared: Path, *, optimised: bool = False, faithful: bool = False) -> str:
    stages: list[str] = []
    found = perform(trace, shared, lambda step, stage: stages.append(stage), optimised=optimised, faithful=faithful)
    assert found.trace == trace
    return f"{'compiled' if 'COMPILE' in stages else 'known'} {found.kind or 'right'}"


def main() -> None:
    shared = Path(tempfile.mkdtemp(dir=sys.argv[1]))
    once = PLAIN.with_steps((SPLIT, UNROLL))
    print(compiled(once, shared))
    print(compiled(once.with_steps((SPLIT, UNROLL, UNROLL)), shared))  # other steps, the same module
    print(compiled(once, shared, optimised=True))
    print(compiled(once, shared, faithful=True))
    print(compiled(once, shared, faithful=True))
    print(compiled(replace(once, sizes={"n": 8, "m": 8}), shared))
    print(compiled(replace(once, seed=1), shared))
    for _ in range(2):
        print(compiled(PLAIN.with_steps((PARALLEL,)), shared))
    for _ in range(2):
        print(compiled(Trace("row_sum", {"n": 3, "m": 5}, (PARTITION,)), shared))
    for steps in ((LET_TWICE,), (RENAME, LET_TWICE)):  # the same module, but for the names of its variables
        looked, confirmed = (perform(ARGMAX.with_steps(steps), shared, faithful=faithful) for faithful in (False, True))
        print(looked.kind, FailureLike.of(looked) == FailureLike.of(confirmed))


if __name__ == "__main__":
    main()
