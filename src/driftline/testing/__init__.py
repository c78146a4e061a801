"""For people who write backends, and for the tests of Driftline itself.

`BackendConformance` is a pytest suite to inherit from. The planted backends are compilers with a known bug each; name
their file with `--plugin` (or in `CheckOptions.plugins`), and they are targets like any other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftline.testing.conformance import BackendConformance

PLANTED = (
    "planted-drops-channel",
    "planted-wrong-axis",
    "planted-wrong-on",
    "planted-wrong-pattern",
    "planted-big-only",
    "planted-nan-swallowed",
    "planted-wrong-dtype",
    "planted-wrong-shape",
    "planted-input-mutated",
    "planted-segfault",
    "planted-abort",
    "planted-hang",
    "planted-memory-hog",
    "planted-flaky",
)

__all__ = ["PLANTED", "BackendConformance", "planted_plugin", "plants_plugin"]


def planted_plugin() -> str:
    """The path to give to `--plugin` so that the planted backends can be named as targets."""
    return str(Path(__file__).with_name("planted.py"))


def plants_plugin() -> str:
    """The path to give to `--plugin` so that faults can be planted into real compilers: `tvm:plant=off-by-one`."""
    return str(Path(__file__).with_name("plants.py"))


def __getattr__(name: str) -> Any:
    if name == "BackendConformance":  # late, because it needs pytest, which workers do not have
        from driftline.testing.conformance import BackendConformance

        return BackendConformance
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
