"""Names of packages that are not the same on every machine."""

from __future__ import annotations

import platform

# TensorFlow without a GPU's libraries: a package of its own on x86, and all there is elsewhere.
TENSORFLOW = "tensorflow-cpu" if platform.machine() == "x86_64" else "tensorflow"
