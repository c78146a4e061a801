"""Named sets of targets: quick, default and all. Each holds the one before it; a backend says itself where it belongs.

quick is what answers in seconds on an ordinary model; default leaves out what compiles as another one does, or takes
minutes to say little more; all is everything.
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
    """Is this the name of a preset, not of a backend?"""
    if target.backend not in PRESETS:
        return False
    if target.version or target.options:
        raise DriftlineError(
            f"Target {str(target)!r}: {target.backend} is a preset, which takes no version or options."
        )
    return True


def rank_of(backend: str) -> int:
    """0 for what is quick; a backend that cannot be loaded, or says something odd, comes last."""
    try:
        return _RANKS.get(BACKENDS.get(backend).preset, _RANKS[ALL])
    except DriftlineError:
        return _RANKS[ALL]


def holds(preset: str, backend: str) -> bool:
    return rank_of(backend) <= _RANKS[preset]


def described() -> Iterator[tuple[str, str]]:
    """Each preset with what it is for and the targets that it adds, for people."""
    for preset, words in PRESETS.items():
        added = [name for name in BACKENDS if rank_of(name) == _RANKS[preset]]
        before = f"{list(PRESETS)[_RANKS[preset] - 1]} and " if _RANKS[preset] else ""
        yield preset, f"{words}: {before}{', '.join(added)}"
