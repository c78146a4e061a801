"""What is known of a module is not compiled again, and what confirms a finding always is; traces are asked once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from driftline.execute.pool import Pool
from driftline.schedules.asking import ScheduleAsker
from driftline.schedules.requests import Performed
from driftline.schedules.trace import LoopAt, ScheduleStep, Trace


def test_a_module_is_compiled_once_unless_it_confirms_something_or_may_race(tmp_path: Path) -> None:
    script = Path(__file__).with_name("same_module.py")
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [
        "compiled right",
        "known right",
        "compiled right",  # with LLVM's optimisations it is another question
        "compiled right",
        "compiled right",  # a confirmation is never answered by memory
        "compiled right",
        "compiled right",
        "compiled right",
        "compiled right",
        "compiled wrong-value",
        "known wrong-value",
        "error True",
        "error True",  # not the message of the other, which has other names
    ]


def test_a_trace_is_performed_once_but_for_parallel_ones(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    asker = ScheduleAsker(pool)
    asked: list[Trace] = []

    def counted(traces: Sequence[Trace], **how: Any) -> list[Performed]:
        asked.extend(traces)
        return [Performed(trace) for trace in traces]

    monkeypatch.setattr(asker, "perform", counted)
    plain, other = Trace("scale", {"n": 2, "m": 2}), Trace("scale", {"n": 3, "m": 2})
    racing = plain.with_steps((ScheduleStep("parallel", loops=(LoopAt("Y", 0),)),))
    quick = {"lenient": True, "build": True, "optimised": False}
    for _ in range(2):
        found = asker.perform_once([plain, racing, other], **quick)
        assert [one.trace for one in found] == [plain, racing, other]
    assert asked == [plain, racing, other, racing]
    asker.perform_once([plain], lenient=True, build=True, optimised=True)
    assert asked[-1] == plain and len(asked) == 5
