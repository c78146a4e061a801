"""The processor of this machine: its architecture and its instruction sets.

Every compiler names instruction sets in its own way; a backend's variants (`Backend.isa_variants`) are chosen by these
features.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

X86, ARM = "x86-64", "arm64"
_MACHINES = {"x86_64": X86, "amd64": X86, "aarch64": ARM, "arm64": ARM}
# The levels that compilers for x86-64 share: the features of each, besides those of the level before.
_LEVELS = {
    "x86-64-v2": ("sse4_2", "popcnt", "ssse3"),
    "x86-64-v3": ("avx2", "fma", "bmi2", "f16c"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}


@dataclass(frozen=True)
class Processor:
    """An architecture and its features, spelled as in Linux: avx2, avx512f, amx_tile; asimd, asimddp, sve."""

    machine: str
    features: frozenset[str] = frozenset()

    def has(self, *features: str) -> bool:
        return self.features.issuperset(features)

    @property
    def levels(self) -> tuple[str, ...]:
        """The x86-64 levels that the processor supports, the lowest first; empty on other processors."""
        if self.machine != X86:
            return ()
        found = [X86]
        for level, features in _LEVELS.items():
            if not self.has(*features):
                break
            found.append(level)
        return tuple(found)


@cache
def this_processor() -> Processor:
    machine = platform.machine().lower()
    return Processor(_MACHINES.get(machine, machine), _features(Path("/proc/cpuinfo")))


def _features(path: Path) -> frozenset[str]:
    """Return the features of the first core; an empty set if the system has no such file."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    told = next((line for line in lines if line.partition(":")[0].strip().lower() in ("flags", "features")), "")
    return frozenset(told.partition(":")[2].lower().split())
