"""What backends and converters know about installing the packages they need, by package."""

from __future__ import annotations

import contextlib

from driftline.backends import BACKENDS
from driftline.core.errors import DriftlineError
from driftline.core.packages import Installing
from driftline.programs.convert import CONVERTERS


def installing(package: str) -> Installing:
    """How this package is installed; the default for one without an entry."""
    for name in BACKENDS:
        with contextlib.suppress(DriftlineError):  # a backend that cannot be loaded says nothing
            known = BACKENDS.get(name).installing
            if package in known:
                return known[package]
    return next((link.installing for link in CONVERTERS if link.environment == package), Installing())
