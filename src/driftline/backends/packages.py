"""How the packages of backends and converters are installed."""

from __future__ import annotations

import contextlib

from driftline.backends import BACKENDS
from driftline.core.errors import DriftlineError
from driftline.core.packages import Installing
from driftline.programs.convert import CONVERTERS


def installing(package: str) -> Installing:
    """Return how this package is installed; the default if nothing is known about it."""
    for name in BACKENDS:
        with contextlib.suppress(DriftlineError):  # a backend that cannot be loaded says nothing
            known = BACKENDS.get(name).installing
            if package in known:
                return known[package]
    return next((link.installing for link in CONVERTERS if link.environment == package), Installing())
