"""Asks workers to execute a script, and reads what they recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from driftline.backends import BACKENDS
from driftline.checking.kinds import worker_for_target
from driftline.core.errors import DamagedFile, DriftlineError
from driftline.core.handover import handed
from driftline.core.target import Target
from driftline.core.text import did_you_mean, last_words
from driftline.core.wire import DAMAGES
from driftline.execute.messages import Ending
from driftline.execute.pool import Pool, WorkerKind
from driftline.scenarios.recording import ScriptRecording, read_recording
from driftline.scenarios.requests import (
    RECORD,
    REJUDGE,
    EventQuestion,
    PlayWay,
    Recorded,
    RecordRequest,
    Rejudged,
    RejudgeRequest,
)
from driftline.scenarios.script import UserScript

AS_IT_STANDS = "as it stands"  # the target of a script with its own backend

# Targets as `torch.compile` calls them
BACKEND_NAMES = {
    "inductor": "inductor",
    "aot_eager": "aot_eager",
    "aot_eager_decomp": "aot_eager_decomp_partition",
}
EMPTY, OTHER_FILL = 0x55, 0xAA  # bytes in fresh memory


@dataclass(frozen=True)
class ScriptOptions:
    """How a script is executed."""

    timeout: float = 300.0
    memory_limit: int = 8 << 30
    seed: int = 0


@dataclass(frozen=True)
class Played:
    """One run of a script: how it ended, and what was recorded until then."""

    ending: Ending
    recording: ScriptRecording
    recorded: Recorded
    detail: str = ""
    log: str = ""
    seconds: float = 0.0


def require_script_target(target: Target) -> None:
    """Refuse a target that is no backend of `torch.compile` for a script."""
    if target.backend not in BACKEND_NAMES:
        known = ", ".join(BACKEND_NAMES)
        raise DriftlineError(
            f"{target}: a script that calls torch.compile runs on {known}.{did_you_mean(target.backend, BACKEND_NAMES)}"
        )
    if target.options:
        raise DriftlineError(f"{target}: the options of torch.compile stand in the script; name the target alone.")


class ScriptRuns:
    """Executes one script for one target, each time in a fresh process."""

    def __init__(self, script: UserScript, target: Target | None, pool: Pool, options: ScriptOptions) -> None:
        self._script = script
        self._pool = pool
        self._options = options
        self._backend = BACKEND_NAMES[target.backend] if target else ""
        self._kind = worker_for_script(script, target)

    def play(self, way: PlayWay, fill: int = EMPTY) -> Played:
        """Execute the script once, and read what it left, also where it did not come to its end."""
        request = self._request(way, fill)
        report = self._pool.run(
            self._kind,
            RECORD,
            request,
            timeout=self._options.timeout,
            memory_limit=self._options.memory_limit,
            fresh=True,
        )
        recorded = report.answer or Recorded()
        recording = _read(request.folder, recorded.printed)
        return Played(report.ending, recording, recorded, report.detail, last_words(report.log), report.seconds)

    def ask(
        self, compiled: ScriptRecording, questions: tuple[EventQuestion, ...]
    ) -> dict[int, tuple[Rejudged, ScriptRecording]]:
        """Judge events from the compiled run's own state. What could not be judged has no answer."""
        request = RejudgeRequest(self._request(PlayWay.COMPILED, EMPTY), compiled.folder, questions)
        report = self._pool.run(
            self._kind,
            REJUDGE,
            request,
            timeout=self._options.timeout + 2 * request.patience * len(questions),
            memory_limit=self._options.memory_limit,
            fresh=True,
        )
        answers = report.answer.answers if report.answer else ()
        return {one.event: (one, _read(handed(one.folder), "")) for one in answers}

    def _request(self, way: PlayWay, fill: int) -> RecordRequest:
        return RecordRequest(
            script=self._script.path,
            text=self._script.text,
            folder=self._pool.workspace.job_folder(),
            way=way,
            backend=self._backend,
            fill=fill,
            seed=self._options.seed,
        )


def worker_for_script(script: UserScript, target: Target | None) -> WorkerKind:
    """A worker that has the compiler warm which the script most likely uses; others are imported when they are."""
    name = target.backend if target else "inductor" if script.may_use_inductor else "aot_eager"
    kind = worker_for_target(BACKENDS.get(name), target or Target(name), ())
    return replace(kind, warm=(*kind.warm, ("driftline.scenarios.warm:warm_scripts", "aot_eager")))


def _read(folder: Path, printed: str) -> ScriptRecording:
    try:
        return read_recording(folder, printed)
    except DAMAGES as error:
        raise DamagedFile(f"The recording of the script cannot be read: {error}") from error
