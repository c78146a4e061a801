"""Describes the process that a task needs, and how to start it: interpreter, variables, path to Driftline."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftline.core.compiler_caches import cache_variables, lasting_caches
from driftline.core.config import cache_home
from driftline.core.errors import BackendUnavailable
from driftline.core.private import private_folder
from driftline.core.secrets import without_keys
from driftline.execute import limits
from driftline.execute.workspace import Workspace


@dataclass(frozen=True)
class WorkerKind:
    """A kind of worker process: an interpreter, the modules imported before forking, and whether forking is safe."""

    name: str
    python: str = sys.executable
    warm: tuple[tuple[str, Any], ...] = ()  # functions to call before forking, each with its argument
    fork: bool = True
    variables: tuple[tuple[str, str], ...] = ()
    # A function with its argument, called after a task: may a process that is not forked serve another task? A restart
    # takes long, but a GPU may not respond to a process after an error. Without it the process serves one task.
    fit: tuple[str, Any] | None = None


class WorkerStartError(BackendUnavailable):
    """A worker cannot start: its modules could not be imported, or its process was killed each time."""


class Killed(WorkerStartError):
    """The process died while it was starting; another try may succeed."""


# Variables that hold any number of flags: a target's flags follow the user's own, since the last one wins.
_LISTS_OF_FLAGS = ("XLA_FLAGS",)

# Workers in other environments do not have Driftline installed: they find it through a folder with one link. Nothing is
# imported from the working folder, since compilers write to it.
BOOTSTRAP = (
    "import sys; root = sys.argv.pop(3); sys.path[:] = [root] * bool(root) + [p for p in sys.path if p];"
    " from driftline.execute.worker import main; main()"
)


def package_root(python: str) -> str:
    """Return the folder through which another interpreter finds Driftline; an empty string for this interpreter."""
    if python == sys.executable:
        return ""
    package = Path(__file__).resolve().parents[1]
    link = cache_home() / "package" / "driftline"
    private_folder(link.parent)
    if not link.is_symlink() or link.resolve() != package:
        part = link.with_name(f"driftline.{os.getpid()}")
        part.symlink_to(package)
        os.replace(part, link)
    return str(link.parent)


def environment_of(kind: WorkerKind, workspace: Workspace) -> dict[str, str]:
    """Return the environment variables of a nursery: the user's, overridden by one thread, the lasting caches,
    temporary files inside the workspace, and the target's own."""
    binaries = os.path.dirname(kind.python)
    inherited = without_keys(os.environ)
    if kind.python != sys.executable:  # variables for this interpreter would mislead another one
        inherited.pop("PYTHONPATH", None)
    told = dict(kind.variables)
    for name in _LISTS_OF_FLAGS:
        if name in told:
            told[name] = f"{inherited.get(name, '')} {told[name]}".strip()
    return {
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **inherited,
        "PATH": f"{binaries}:{os.environ.get('PATH', '')}",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PIP_REQUIRE_VIRTUALENV": "1",
        "TMPDIR": str(workspace.nursery_folder),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        **cache_variables(private_folder(lasting_caches())),
        **told,
    }


def killed_each_time(kind: WorkerKind, said: str) -> str:
    """Return the error message for a process that was killed at every start."""
    return (
        f"{kind.name}: the process was killed before it could begin, {limits.STARTS} times in a row ({said}). Look for"
        " what kills it (a shortage of memory, perhaps), and start again"
    )
