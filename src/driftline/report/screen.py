"""Print tables, panels and progress on the terminal. Escape sequences, control characters and markup of rich inside
names are shown as text and never interpreted. Plain lines go through `driftline.core.streams`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.errors import MarkupError
from rich.segment import Segment
from rich.text import Text

from driftline.core.quoting import visible
from driftline.core.streams import Plain
from driftline.core.terminal import wants_colours


class Screen(Console):
    """A rich console that shows control characters instead of sending them. It writes to the stream beneath `Plain`, so
    that its own control codes pass.
    """

    def __init__(self, **given: Any) -> None:
        if not wants_colours():
            given["color_system"] = None
        super().__init__(emoji=False, **given)

    @property
    def file(self) -> Any:
        found = Console.file.fget(self)  # type: ignore[attr-defined]
        return found.beneath if isinstance(found, Plain) else found

    @file.setter
    def file(self, new_file: Any) -> None:
        self._file = new_file

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

    def render_str(self, text: str, **given: Any) -> Text:
        try:
            return super().render_str(text, **given)
        except MarkupError:  # a name that looks like markup, and is none
            return super().render_str(text, **{**given, "markup": False})


def console() -> Console:
    """Return a console that is wide enough for a table even if the output is a file or a pipe."""
    width = None if sys.stdout.isatty() else max(120, shutil.get_terminal_size((120, 40)).columns)
    return Screen(width=width, highlight=False)
