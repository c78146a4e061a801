"""Tools for tests that use compilers, for authors of backends, and for Driftline's own tests.

`known_failing_targets`, `requires` and `assert_close_by_rounding` are for tests of your own; pytest finds the plugin
with the fixtures by itself. `BackendConformance` is a pytest suite to inherit from. The planted backends are compilers
with a known bug each; name their file with `--plugin` (or in `CheckOptions.plugins`), and they are targets like any
other.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftline.testing.assertions import JudgedWrong, assert_close_by_rounding, assert_scenario
    from driftline.testing.conformance import BackendConformance
    from driftline.testing.pytest_plugin import known_failing_targets, requires

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

# Late, because they need pytest, or the whole engine, which workers do not have.
_LATE = {
    "BackendConformance": "driftline.testing.conformance",
    "JudgedWrong": "driftline.testing.assertions",
    "assert_close_by_rounding": "driftline.testing.assertions",
    "assert_scenario": "driftline.testing.assertions",
    "known_failing_targets": "driftline.testing.pytest_plugin",
    "requires": "driftline.testing.pytest_plugin",
}

__all__ = [
    "PLANTED",
    "BackendConformance",
    "JudgedWrong",
    "assert_close_by_rounding",
    "assert_scenario",
    "known_failing_targets",
    "planted_plugin",
    "plants_plugin",
    "requires",
]


def planted_plugin() -> str:
    """Return the path to give to `--plugin` so that the planted backends can be named as targets."""
    return str(Path(__file__).with_name("planted.py"))


def plants_plugin() -> str:
    """Return the path to give to `--plugin` so that faults can be planted into compilers: `tvm:plant=off-by-one`."""
    return str(Path(__file__).with_name("plants.py"))


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
