"""A target of ours in the words of the compiler's own users: what to set so that it runs that way."""

from __future__ import annotations

from driftline.backends import BACKENDS
from driftline.core.quoting import code
from driftline.core.target import Target


def in_their_words(target: Target) -> str:
    """As code to copy; the name of the target where there is no public switch."""
    said = BACKENDS.get(target.backend).settings_text(dict(target.options))
    return code(said) if said else f"Driftline's {code(str(target))}"
