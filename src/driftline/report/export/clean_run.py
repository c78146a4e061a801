"""Running a script as a stranger would: a fresh process, an empty folder, none of our environment variables. Like a
worker it has no network and may write to its folder and its cache only; but where uv has to install what it needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from driftline.core.config import cache_home
from driftline.core.private import private_folder
from driftline.core.secrets import without_keys
from driftline.core.text import first_line
from driftline.execute.sandbox import enter

LIMIT = 300.0  # seconds
NO_FILES: Mapping[str, bytes] = {}


@dataclass(frozen=True)
class CleanRun:
    """How a script ended."""

    status: int | None  # None: it did not end in time
    output: str
    errors: str
    seconds: float

    @property
    def shows_bug(self) -> bool:
        return self.status == 1 and "BUG:" in self.errors

    @property
    def ending(self) -> str:
        """In words, when it did not go as it should."""
        if self.status is None:
            return f"it did not end within {self.seconds:.0f} s"
        last = [line for line in self.errors.splitlines() if line.strip()][-1:] or ["nothing on stderr"]
        return f"it ended with {self.status}: {first_line(last[0])}"


HERE = sys.executable  # this interpreter
FROM_METADATA = ""  # an environment that uv makes from the script's first lines


def run_clean(
    text: str, *, python: str = HERE, limit: float = LIMIT, files: Mapping[str, bytes] = NO_FILES
) -> CleanRun:
    """Run the text of a script, isolated, by an interpreter that has what it needs. `files` lie beside the script."""
    with tempfile.TemporaryDirectory(prefix="export-") as folder:
        path = Path(folder) / "script.py"
        path.write_text(text)
        _write(folder, files)
        if python == FROM_METADATA:
            command = [_uv(), "run", "-q", "--no-project", "--python", sys.executable, "--script", str(path)]
        else:
            command = [python, "-I", str(path)]
        return _run(command, folder, limit, inherit=python == FROM_METADATA)


def run_test_clean(text: str, *, limit: float = LIMIT, files: Mapping[str, bytes] = NO_FILES) -> CleanRun:
    """Run the text of a test file with pytest, which finds no configuration of ours. `files` lie beside the test."""
    with tempfile.TemporaryDirectory(prefix="export-") as folder:
        path = Path(folder) / "test_exported.py"
        path.write_text(text)
        _write(folder, files)
        command = [sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, str(path)]
        return _run(command, folder, limit)


def _write(folder: str, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (Path(folder) / name).write_bytes(content)


def can_make_environments() -> bool:
    return bool(_uv())


def _uv() -> str:
    return shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}") or ""


def _run(command: Sequence[str], folder: str, limit: float, *, inherit: bool = False) -> CleanRun:
    began = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, cwd=folder, env=_variables(folder, inherit),
            stdin=subprocess.DEVNULL, preexec_fn=None if inherit else partial(enter, [folder, _cache()]),
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
        return CleanRun(None, said.decode(errors="replace") if isinstance(said, bytes) else said, "", limit)
    output, errors = (_without_places(text, folder) for text in (done.stdout, done.stderr))
    return CleanRun(done.returncode, output, errors, time.monotonic() - began)


def _without_places(text: str, folder: str) -> str:
    """What is printed goes into reports: without the folders of this machine."""
    return re.sub(r"/\S*/site-packages/", "", text.replace(folder + "/", ""))


def _cache() -> Path:
    private_folder(cache_home() / "scripts" / "tmp")
    return cache_home() / "scripts"


def _variables(folder: str, inherit: bool) -> dict[str, str]:
    """What a program needs to find a C++ compiler; and a place for what Inductor precompiles, which takes half a minute
    and would be done again each time."""
    cache = _cache()
    kept = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        "HOME": folder,
        "TMPDIR": str(cache / "tmp"),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # what happens to be installed may need the network
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
    }
    if not inherit:
        return kept
    # uv is told by variables where packages come from and where its cache lies.
    told = {k: v for k, v in without_keys(os.environ).items() if not re.match(r"PYTHON|VIRTUAL_ENV|TORCH|DRIFTLINE", k)}
    return {**told, "TMPDIR": folder, "OMP_NUM_THREADS": "1"}
