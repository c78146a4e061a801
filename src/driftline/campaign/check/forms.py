"""The languages in which programs for a compiler are written."""

from __future__ import annotations

from driftline.backends.base import Backend

# A form that a backend accepts -> the language in which Driftline writes programs
FORM_OF = {"onnx": "onnx", "source:torch": "torch", "source:jax": "jax", "source:tensorflow": "tensorflow"}


def form_of(backend: Backend) -> str | None:
    """Return the language in which programs for this backend are written, or None."""
    return next((FORM_OF[form] for form in backend.accepts if form in FORM_OF), None)
