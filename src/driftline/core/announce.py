"""Long work says what it is doing."""

from __future__ import annotations

from collections.abc import Callable

Announce = Callable[[str], None]  # takes one line of text
