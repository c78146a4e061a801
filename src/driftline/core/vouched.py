"""Whether the user vouched for the files of this process (`--trust`), or made them in this process.

The process that starts workers says so with each job, so that workers know.
"""

from __future__ import annotations

_vouched = False


def vouch(given: bool = True) -> None:
    """Say whether files may bring code from now on."""
    global _vouched
    _vouched = given


def vouched() -> bool:
    """True if files may bring code."""
    return _vouched
