"""Ask workers to execute a script, and read what they recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from driftline.backends import BACKENDS
from driftline.checking.kinds import worker_for_target
from driftline.core import strangers
from driftline.core.errors import DamagedFile
from driftline.core.handover import handed
from driftline.core.target import Target
from driftline.core.text import last_words
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
from driftline.scenarios.target import AS_IT_STANDS, BACKEND_NAMES

EMPTY, OTHER_FILL = 0x55, 0xAA  # bytes in fresh memory


@dataclass(frozen=True)
class ScriptOptions:
    """The limits and the seed for executing a script."""

    timeout: float = 300.0
    memory_limit: int = 8 << 30
    seed: int = 0


@dataclass(frozen=True)
class Played:
    """One run of a script: how it ended, and what was recorded up to then."""

    ending: Ending
    recording: ScriptRecording
    recorded: Recorded
    detail: str = ""
    log: str = ""
    seconds: float = 0.0


class ScriptRuns:
    """Executes one script for one target, each time in a fresh process."""

    def __init__(self, script: UserScript, target: Target | None, pool: Pool, options: ScriptOptions) -> None:
        self._script = script
        self._pool = pool
        self._options = options
        self._backend = BACKEND_NAMES.get(target.backend, "") if target else ""
        self._kind = worker_for_script(script, target)

    def play(self, way: PlayWay, fill: int = EMPTY) -> Played:
        """Execute the script once and read its recording, even if the script did not end normally."""
        strangers.admit()
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
        """Judge events from the compiled run's own state. Returns answers by event; events that could not be judged are
        missing."""
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
    """Return a worker kind that has already imported the compiler that the script most likely uses."""
    own = target is None or target.backend == AS_IT_STANDS
    uses_inductor = script.may_use_inductor if own or target is None else target.backend == "inductor"
    likely = Target("inductor" if uses_inductor else "aot_eager", target.version if target else None)
    kind = worker_for_target(BACKENDS.get(likely.backend), likely, ())
    return replace(kind, warm=(*kind.warm, ("driftline.scenarios.warm:warm_scripts", "aot_eager")))


def _read(folder: Path, printed: str) -> ScriptRecording:
    try:
        return read_recording(folder, printed)
    except DAMAGES as error:
        raise DamagedFile(f"The recording of the script cannot be read: {error}") from error
