"""Package names that differ between machines, and extra requirements of some packages."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field

# TensorFlow without GPU libraries: a package of its own on x86, the only package elsewhere.
TENSORFLOW = "tensorflow-cpu" if platform.machine() == "x86_64" else "tensorflow"


def extra_command(extra: str) -> str:
    """Return the command that installs one of Driftline's extras, quoted for the shell."""
    return f"pip install 'driftline[{extra}]'"


@dataclass(frozen=True)
class Installing:
    """How to install the releases of one package, where its own metadata is incomplete."""

    module: str = ""  # the module whose import shows whether a release works; default: the name of the package
    companions: tuple[str, ...] = ()  # further requirements; `{version}` stands for the release
    # Requirements of some releases only, by the beginning of their version.
    companions_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    compiled_half: str = ""  # a compiled package: usable are only releases for which it has wheels

    def requirements(self, version: str) -> list[str]:
        """Return the further requirements of a release."""
        some = [each for start, group in self.companions_of.items() if version.startswith(start) for each in group]
        return [requirement.format(version=version) for requirement in (*self.companions, *some)]
