"""In which language programs for a compiler are written."""

from __future__ import annotations

from driftline.backends.base import Backend

# What a backend takes -> what we write
FORM_OF = {"onnx": "onnx", "source:torch": "torch", "source:jax": "jax", "source:tensorflow": "tensorflow"}


def form_of(backend: Backend) -> str | None:
    """The language in which programs for this backend are written."""
    return next((FORM_OF[form] for form in backend.accepts if form in FORM_OF), None)
