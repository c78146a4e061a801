"""Packages: names that are not the same on every machine, and what an installer must be told beside a name."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field

# TensorFlow without a GPU's libraries: a package of its own on x86, and all there is elsewhere.
TENSORFLOW = "tensorflow-cpu" if platform.machine() == "x86_64" else "tensorflow"


def extra_command(extra: str) -> str:
    """The command that adds one of Driftline's extras, quoted for the shell."""
    return f"pip install 'driftline[{extra}]'"


@dataclass(frozen=True)
class Installing:
    """How the releases of one package are installed, where its own metadata does not say it."""

    module: str = ""  # its import shows whether a release works at all; default: the name of the package
    companions: tuple[str, ...] = ()  # further requirements; `{version}` stands for the release
    # Further requirements of some releases only, by how their version begins.
    companions_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    compiled_half: str = ""  # a package of pure Python is usable in releases for which this one has wheels

    def requirements(self, version: str) -> list[str]:
        """What else a release needs."""
        some = [each for start, group in self.companions_of.items() if version.startswith(start) for each in group]
        return [requirement.format(version=version) for requirement in (*self.companions, *some)]
