"""Describe an exception raised by a script. Runs in a worker."""

from __future__ import annotations

from types import TracebackType

from driftline.core.text import telling_line
from driftline.scenarios.recording import Raised

_COMPILER = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx.experimental")
_DECLINED = ("Unsupported", "UserError", "FailOnRecompileLimitHit", "RecompileLimitExceeded")


def raised(error: BaseException, script: str) -> Raised:
    """Return the description of an exception for an event. `script`: the file of the script."""
    of = type(error)
    home = of.__module__ or ""
    return Raised(
        name=of.__name__,
        bases=tuple(one.__name__ for one in of.__mro__),
        message=telling_line(str(error), 300),
        by_script=_raised_in(error.__traceback__) == script,
        by_compiler=home.startswith(_COMPILER),
        declined=of.__name__ in _DECLINED and home.startswith("torch._dynamo"),
    )


def _raised_in(traceback: TracebackType | None) -> str:
    """Return the file whose code raised the exception."""
    file = ""
    while traceback is not None:
        file, traceback = traceback.tb_frame.f_code.co_filename, traceback.tb_next
    return file
