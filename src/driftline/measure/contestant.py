"""A program on one target, compiled in a process of its own and kept there to be timed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from driftline.core.case_files import CaseFiles
from driftline.core.execution import Failure, known_stage
from driftline.core.handover import remove_folder
from driftline.execute.pool import HeldWorker, Pool, WorkerKind
from driftline.execute.requests import ENDED
from driftline.measure.requests import KEEP, TIME, KeepRequest, Kept, TimeRequest
from driftline.measure.rounds import Timing

WARM_UP_CALLS = 3
WARM_UP_SECONDS = 1.0  # after this no further call is made to warm up
_MEMORY = 16 << 30


class Untimed(Exception):
    """The process of a contestant did not answer."""


@dataclass
class Contestant:
    """A compiled program and the process that runs it. Peaks are bytes beyond those of the empty process."""

    kept: Kept
    compile_peak: int
    run_peak: int
    _worker: HeldWorker
    _timeout: float

    @property
    def usable(self) -> bool:
        return self.kept.first_result > 0

    def time(self, calls: int) -> Timing:
        """Run the program `calls` times and return the time of one call. Raise `Untimed` if the process does not
        answer.
        """
        report = self._worker.run(TIME, TimeRequest(calls), timeout=self._timeout, memory_limit=_MEMORY)
        if report.answer is None:
            raise Untimed(f"{report.ending} while it was timed ({report.detail})")
        used = report.answer.device_memory or max(report.peak_memory - self.kept.empty_memory, 0)
        self.run_peak = max(self.run_peak, used)
        answer = report.answer
        return Timing(answer.wall / calls, answer.cpu / calls, answer.instructions / calls)

    def warm_up(self) -> None:
        """Make a few calls that do not count."""
        spent = 0.0
        for _ in range(WARM_UP_CALLS):
            if spent < WARM_UP_SECONDS:
                spent += self.time(1).wall


@contextlib.contextmanager
def contestant(
    pool: Pool,
    kind: WorkerKind,
    case: CaseFiles,
    backend: str,
    options: Mapping[str, str],
    *,
    timeout: float = 900.0,
    cold: bool = True,
) -> Iterator[Contestant]:
    """Compile a program for its first sample, warm it up and hold it inside the block.

    If that fails, the contestant is not `usable`, and `kept` says why. Raise `WorkerStartError` if the process cannot
    start. The folder of the case is removed at the end. Unless `cold`, a compiler may use cached code, so that compile
    times mean nothing.
    """
    try:
        with pool.hold(kind) as worker:
            report = worker.run(KEEP, KeepRequest(case, backend, options, cold), timeout=timeout, memory_limit=_MEMORY)
            kept = report.answer
            if kept is None:
                failure = Failure(str(report.ending), report.detail)
                kept = Kept(ENDED[report.ending], known_stage(report.stage), failure=failure)
            peak = max(report.peak_memory - kept.empty_memory, 0) if kept.empty_memory else 0
            made = Contestant(kept, kept.device_memory or peak, 0, worker, timeout)
            if made.usable:
                made.warm_up()
            yield made
    finally:
        remove_folder(case.folder)
