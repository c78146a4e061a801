"""Named sets of targets: quick, default and all. Each contains the one before it; each backend declares its own preset.

quick: targets that answer within seconds on an ordinary model. default: without targets that compile like another one,
or take minutes for little more information. all: every target.
"""

from __future__ import annotations

from collections.abc import Iterator

from driftline.backends import BACKENDS
from driftline.core.errors import DriftlineError
from driftline.core.target import Target

QUICK, DEFAULT, ALL = "quick", "default", "all"
PRESETS = {
    QUICK: "answers in seconds",
    DEFAULT: "without near-duplicates; what runs when no targets are named",
    ALL: "everything",
}
_RANKS = {name: rank for rank, name in enumerate(PRESETS)}


def is_preset(target: Target) -> bool:
    """True if the target is a preset. Raises if a preset has a version or options."""
    if target.backend not in PRESETS:
        return False
    if target.version or target.options:
        raise DriftlineError(
            f"Target {str(target)!r}: {target.backend} is a preset, which takes no version or options."
        )
    return True


def rank_of(backend: str) -> int:
    """Return the rank of a backend's preset, 0 for quick. A backend that cannot be loaded, or declares no known preset,
    comes last."""
    try:
        return _RANKS.get(BACKENDS.get(backend).preset, _RANKS[ALL])
    except DriftlineError:
        return _RANKS[ALL]


def holds(preset: str, backend: str) -> bool:
    return rank_of(backend) <= _RANKS[preset]


def described() -> Iterator[tuple[str, str]]:
    """Yield each preset with a text about its purpose and the targets that it adds."""
    for preset, words in PRESETS.items():
        added = [name for name in BACKENDS if rank_of(name) == _RANKS[preset]]
        before = f"{list(PRESETS)[_RANKS[preset] - 1]} and " if _RANKS[preset] else ""
        yield preset, f"{words}: {before}{', '.join(added)}"
