"""The type of functions that receive progress messages of long work."""

from __future__ import annotations

from collections.abc import Callable

Announce = Callable[[str], None]  # takes one line of text
