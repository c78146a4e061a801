"""The steps that end a long run: matching, explaining, showing, writing a report. Each may fail, and takes neither the
others nor the summary with it; what went wrong is kept with the result and told in one line.
"""

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
    """A step that failed, and what that means for the user."""

    step: str  # such as "matching the waiting suspects"
    error: str  # such as "KeyError: '12'"
    then: str = ""  # such as "they stay unexamined"
    details: str = ""  # a traceback, where Driftline itself is at fault
    exit_code: int = 0  # 0 for a bug in Driftline, which does not hide what the run found

    @staticmethod
    def of(step: str, error: Exception, then: str = "") -> FailedStep:
        """What an exception says of a step. A full disk, and what else a user can act on, is no fault of ours."""
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
    """While one of these steps runs: an exception is kept in `failed` and goes no further. Ctrl-C does."""
    try:
        yield
    except Exception as error:
        failed.append(FailedStep.of(step, error, then))


def exit_code_after(failed: Sequence[FailedStep], code: int) -> int:
    """Return the exit code of a run: that of its findings, or else of the first failed step that a user can act on."""
    return code if code == 1 else next((step.exit_code for step in failed if step.exit_code), code)
