"""A command line in this process: as the command does it, without importing everything again, with warm nurseries."""

from __future__ import annotations

import contextlib
import io
import subprocess

from driftline.cli import run


def typed(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What `driftline` with these arguments prints, and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(list(arguments))
    return subprocess.CompletedProcess(["driftline", *arguments], code, out.getvalue(), err.getvalue())
