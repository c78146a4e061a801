"""Which passes of XLA changed a program: it writes the program down after each of them, when asked to.

`xla_dump_hlo_pass_re=.*` writes after those passes only that changed something, which costs little.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

_AFTER = re.compile(r"\.after_([\w-]+)\.before_")
_MARKS = ("pipeline-start",)  # no pass: where a pipeline begins


def dump_settings(folder: Path | str) -> dict[str, object]:
    """What XLA must be told to write its passes down in that folder."""
    return {"xla_dump_to": str(folder), "xla_dump_hlo_pass_re": ".*"}


def dumps_already(environment: Mapping[str, str]) -> bool:
    """Does the user have XLA write its programs down? They go where the user wants them, and we read none."""
    return "--xla_dump_to" in environment.get("XLA_FLAGS", "")


def taken_passes(folder: Path) -> list[str]:
    """The passes whose dumps lie there, each once, in order; the folder is emptied."""
    names = []
    for path in sorted(folder.iterdir()):
        if found := _AFTER.search(path.name):
            names.append(found[1])
        path.unlink()
    return [name for name in dict.fromkeys(names) if name not in _MARKS]


class ProcessDumps:
    """For an XLA that reads its flags once, when a process compiles for the first time: all of them are dumped then."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def prepare(self, environment: Mapping[str, str]) -> str:
        """The flags to set before the first compilation: those that are set already, and ours."""
        set_already = environment.get("XLA_FLAGS", "")
        if self._folder is None and dumps_already(environment):
            return set_already
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="xla-passes-"))
        ours = " ".join(f"--{key}={value}" for key, value in dump_settings(self._folder).items())
        return set_already if ours in set_already else f"{set_already} {ours}".strip()

    def taken(self) -> list[str]:
        return taken_passes(self._folder) if self._folder else []
