"""The steps that end a long run: matching, explaining, showing, writing a report. If one fails, the others and the
summary still follow; the failure is kept with the result and reported in one line."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from driftline.core.config import cache_home
from driftline.core.errors import DriftlineError, InternalError
from driftline.core.full_disk import disk_full, no_room


@dataclass(frozen=True)
class FailedStep:
    """A step that failed, and the consequence for the user."""

    step: str  # such as "matching the waiting suspects"
    error: str  # such as "KeyError: '12'"
    then: str = ""  # such as "they stay unexamined"
    details: str = ""  # the traceback of a fault of Driftline
    exit_code: int = 0  # 0 for a fault of Driftline, which does not hide the findings of the run

    @staticmethod
    def of(step: str, error: Exception, then: str = "") -> FailedStep:
        """Describe the exception of a step. A full disk, or another error that the user can act on, is no fault of
        Driftline."""
        if no_room(error):
            error = disk_full(cache_home())
        if isinstance(error, DriftlineError):
            return FailedStep(step, str(error), then, exit_code=error.exit_code)
        name = "" if isinstance(error, InternalError) else f"{type(error).__name__}: "
        said = " ".join(str(error).split()) or "no message"
        return FailedStep(step, f"{name}{said[:300]}", then, "".join(traceback.format_exception(error)))

    @property
    def sentence(self) -> str:
        return f"{self.step} failed: {self.error.rstrip('.')}" + (f"; {self.then}" if self.then else "")

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "exit_code"}


@contextlib.contextmanager
def closing_step(failed: list[FailedStep], step: str, then: str = "") -> Iterator[None]:
    """Run one step in a `with` block: an exception is added to `failed` and suppressed, except Ctrl-C."""
    try:
        yield
    except Exception as error:
        failed.append(FailedStep.of(step, error, then))


def exit_code_after(failed: Sequence[FailedStep], code: int) -> int:
    """Return the exit code of a run: that of its findings, or else of the first failed step that a user can act on."""
    return code if code == 1 else next((step.exit_code for step in failed if step.exit_code), code)
