"""Express a target's options in the settings of the compiler's own API."""

from __future__ import annotations

from driftline.backends import BACKENDS
from driftline.core.quoting import code
from driftline.core.target import Target


def in_their_words(target: Target) -> str:
    """Return code that sets the options of a target, or the name of the target if the compiler has no public setting
    for them.
    """
    said = BACKENDS.get(target.backend).settings_text(dict(target.options))
    return code(said) if said else f"Driftline's {code(str(target))}"
