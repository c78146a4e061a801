"""Whether the files of this process are trusted: the user said so (`--trust`), or they were made in this process.

The parent passes the setting to workers with each job.
"""

from __future__ import annotations

_vouched = False


def vouch(given: bool = True) -> None:
    """Set whether files may contain code from now on."""
    global _vouched
    _vouched = given


def vouched() -> bool:
    """True if files may contain code."""
    return _vouched
