"""Run a script as a stranger would: in a fresh process and an empty folder, without our environment variables.

Like a worker, the process has no network and may write to its own folder only; the folder and all child processes are
removed afterwards. If the script needs an environment, uv creates it beforehand without running any part of the script.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from driftline.core.errors import DriftlineError
from driftline.core.removal import remove_tree
from driftline.core.secrets import without_keys
from driftline.core.text import first_line
from driftline.execute.confined import MEMORY, Allowed, run_confined

LIMIT = 300.0  # seconds
NO_FILES: Mapping[str, bytes] = {}
_PINNED = re.compile(r'# dependencies = \[("[\w.-]+==[\w.!+*-]+"(, )?)*\]', re.ASCII)


@dataclass(frozen=True)
class CleanRun:
    """How the run of a script ended, and what the script printed."""

    status: int | None  # None: it was ended, for the reason in `why`
    output: str
    errors: str
    seconds: float
    why: str = ""

    @property
    def shows_bug(self) -> bool:
        """True if the script exited with status 1 and reported a bug."""
        return self.status == 1 and "BUG:" in self.errors

    @property
    def ending(self) -> str:
        """Describe how a run ended that did not end as expected."""
        if self.status is None:
            return self.why or f"it did not end within {self.seconds:.0f} s"
        last = [line for line in self.errors.splitlines() if line.strip()][-1:] or ["nothing on stderr"]
        return f"it ended with {self.status}: {first_line(last[0])}"


HERE = sys.executable  # this interpreter
FROM_METADATA = ""  # an environment that uv makes from the script's first lines


def run_clean(
    text: str, *, python: str = HERE, limit: float = LIMIT, files: Mapping[str, bytes] = NO_FILES
) -> CleanRun:
    """Run the text of a script, confined, in the interpreter `python`. `files` are written beside the script."""
    with _folder_with({"script.py": text.encode(), **files}) as folder:
        if python == FROM_METADATA:
            began = time.monotonic()
            python, problem = _environment_for(text, folder, limit)
            if problem:
                return CleanRun(None, "", "", time.monotonic() - began, problem)
        return _run([python, "-I", str(folder / "script.py")], folder, limit)


def run_test_clean(text: str, *, limit: float = LIMIT, files: Mapping[str, bytes] = NO_FILES) -> CleanRun:
    """Run the text of a test file with pytest, without any configuration of this project. `files` are written beside
    the test.
    """
    with _folder_with({"test_exported.py": text.encode(), **files}) as folder:
        options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
        command = [sys.executable, "-I", "-m", "pytest", *options, str(folder / "test_exported.py")]
        return _run(command, folder, limit)


@contextlib.contextmanager
def _folder_with(files: Mapping[str, bytes]) -> Iterator[Path]:
    """Create a temporary folder that contains `files` and room for compiler caches; remove it with everything in it at
    the end.
    """
    folder = Path(tempfile.mkdtemp(prefix="export-"))
    try:
        (folder / "tmp").mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        yield folder
    finally:
        remove_tree(folder)


def can_make_environments() -> bool:
    """True if uv is installed."""
    return bool(_uv())


def _uv() -> str:
    return shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}") or ""


def _environment_for(text: str, folder: Path, limit: float) -> tuple[str, str]:
    """Return the interpreter of an environment made from the script's metadata, and an empty string; or the reason of a
    failure. uv reads only the metadata and installs prebuilt packages, so no code of the script runs.
    """
    told = [line for line in text.splitlines() if line.startswith("# dependencies")]
    if len(told) > 1 or not all(_PINNED.fullmatch(line) for line in told) or text.count("# /// ") > 1:
        return "", "its first lines name packages in another way than Driftline writes them"
    (folder / "metadata.py").write_text(text.partition("# ///\n")[0] + "# ///\n")  # the metadata only
    script = ["--script", str(folder / "metadata.py")]
    try:
        for words in (["sync", "-q", "--no-build", "--python", sys.executable], ["python", "find"]):
            done = subprocess.run(
                [_uv(), *words, *script], capture_output=True, text=True, timeout=limit, cwd=folder,
                env=_variables_of_uv(folder), stdin=subprocess.DEVNULL,
            )  # fmt: skip
            if done.returncode != 0:
                return "", f"uv could not make its environment: {first_line(done.stderr.strip() or 'it says nothing')}"
    except subprocess.TimeoutExpired:
        return "", f"its environment was not made within {limit:.0f} s"
    return done.stdout.strip(), ""


def _run(command: Sequence[str], folder: Path, limit: float) -> CleanRun:
    try:
        done = run_confined(command, folder, _variables(folder), Allowed((folder,), limit, MEMORY))
    except DriftlineError as error:
        return CleanRun(None, "", "", 0.0, str(error))
    output, errors = (_without_places(text, folder) for text in (done.output, done.errors))
    return CleanRun(done.status, output, errors, done.seconds, done.why)


def _without_places(text: str, folder: Path) -> str:
    """Remove the folders of this machine from printed text, since the text goes into reports."""
    return re.sub(r"/\S*/site-packages/", "", text.replace(f"{folder}/", ""))


def _variables(folder: Path) -> dict[str, str]:
    """Return the environment variables of a run: enough to find a C++ compiler, and compiler caches inside `folder`.
    Precompiling of headers is disabled, since it takes half a minute for one program.
    """
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        "HOME": str(folder),
        "TMPDIR": str(folder / "tmp"),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # installed plugins may need the network
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "tmp" / "inductor"),
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    }


def _variables_of_uv(folder: Path) -> dict[str, str]:
    """Return the environment variables for uv. Its own variables are kept, since they name package indexes and the
    cache.
    """
    told = {k: v for k, v in without_keys(os.environ).items() if not re.match(r"PYTHON|VIRTUAL_ENV|TORCH|DRIFTLINE", k)}
    return {**told, "TMPDIR": str(folder / "tmp")}
