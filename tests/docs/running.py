"""Running what pages show: the files that they name are written first, then their commands run in that order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from documents import ROOT, blocks, commands

_BUG = re.compile(r"[a-z]+-[0-9a-f]{4,8}")  # as pages name bugs, and cases
_CASE = re.compile(r"[0-9a-f]{16}")


def write_files(page: str, folder: Path) -> None:
    """The code blocks that begin with the name of a file."""
    for block in blocks(ROOT / page):
        if block.language == "python" and (name := re.match(r"# (\w+\.py)\n", block.text)):
            (folder / name[1]).write_text(block.text)


def run_in(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    surroundings = {**os.environ, "COLUMNS": "120", "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env={**surroundings, **environment}, capture_output=True, text=True)


def typed_on(page: str, beginning: str) -> list[tuple[str, ...]]:
    found = [command.words for command in commands("driftline") if command.where.startswith(f"{page}:")]
    wanted = [words for words in found if " ".join(words).startswith(beginning)]
    assert wanted, f"{page} has no {beginning!r} any more"
    return wanted


def run_typed(
    page: str,
    beginning: str,
    folder: Path,
    *more: str,
    codes: tuple[int, ...] = (0,),
    bug: str = "",
    case: str = "",
    environment: Mapping[str, str] | None = None,
) -> str:
    """The commands of a page that begin so, with further options, which win over those of the page; `bug` and `case`
    stand for those that the page names. Returns what was printed."""
    said = ""
    for typed in typed_on(page, beginning):
        if any("device=cuda" in word for word in typed):
            continue  # shown.py says that it is not run
        words = [
            bug if bug and _BUG.fullmatch(word) else case if case and _CASE.fullmatch(word) else word for word in typed
        ]
        done = run_in(folder, "-m", "driftline", *words[1:], *more, **(environment or {}))
        assert done.returncode in codes, f"{words}: {done.returncode} {done.stdout[-1500:]} {done.stderr[-3000:]}"
        said += done.stdout
    return said
