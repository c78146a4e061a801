"""Finds which passes of XLA changed a program, from the files that XLA can write after each pass.

With `xla_dump_hlo_pass_re=.*` XLA writes a file only after passes that changed something, which costs little.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

_AFTER = re.compile(r"\.after_([\w-]+)\.before_")
_MARKS = ("pipeline-start",)  # no pass: where a pipeline begins


def dump_settings(folder: Path | str) -> dict[str, object]:
    """Return the settings that make XLA write its passes to that folder."""
    return {"xla_dump_to": str(folder), "xla_dump_hlo_pass_re": ".*"}


def dumps_already(environment: Mapping[str, str]) -> bool:
    """True if the user already makes XLA write its programs to a folder; those files are not read."""
    return "--xla_dump_to" in environment.get("XLA_FLAGS", "")


def taken_passes(folder: Path) -> list[str]:
    """Return the passes that have a dump in the folder, without duplicates, in order; empties the folder."""
    names = []
    for path in sorted(folder.iterdir()):
        if found := _AFTER.search(path.name):
            names.append(found[1])
        path.unlink()
    return [name for name in dict.fromkeys(names) if name not in _MARKS]


class ProcessDumps:
    """Dumps for an XLA that reads its flags once per process, at the first compilation: every compilation is dumped."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def prepare(self, environment: Mapping[str, str]) -> str:
        """Return the flags to set before the first compilation: the existing ones, and those for dumps."""
        set_already = environment.get("XLA_FLAGS", "")
        if self._folder is None and dumps_already(environment):
            return set_already
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="xla-passes-"))
        ours = " ".join(f"--{key}={value}" for key, value in dump_settings(self._folder).items())
        return set_already if ours in set_already else f"{set_already} {ours}".strip()

    def taken(self) -> list[str]:
        return taken_passes(self._folder) if self._folder else []
