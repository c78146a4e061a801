"""Choose the renderer of an output format, and write files atomically."""

from __future__ import annotations

import importlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from driftline.core.errors import DriftlineError
from driftline.core.output_place import require_place
from driftline.core.text import did_you_mean
from driftline.report.view import ComparisonView, ReportView

# format -> (renderer, suffixes). Renderers are imported when they are used.
FORMATS = {
    "html": ("driftline.report.html", (".html", ".htm")),
    "md": ("driftline.report.markdown", (".md", ".markdown")),
    "csv": ("driftline.report.table", (".csv",)),
    "json": ("driftline.report.whole", (".json",)),
    "junit": ("driftline.report.junit", (".xml",)),
}


def choose_format(asked: str | None, out: Path | None) -> str:
    """Return the requested format, otherwise the format of the file's suffix, otherwise Markdown if there is no
    file.
    """
    if asked:
        if asked not in FORMATS:
            hint = did_you_mean(asked, FORMATS)
            raise DriftlineError(f"There is no format {asked!r}.{hint} Formats are: {', '.join(FORMATS)}.")
        return asked
    if out is None:
        return "md"
    for name, (_, suffixes) in FORMATS.items():
        if out.suffix.lower() in suffixes:
            return name
    known = ", ".join(suffix for _, suffixes in FORMATS.values() for suffix in suffixes)
    raise DriftlineError(f"--out {out}: the suffix tells no format ({known}); add one or name it with --format.")


def render(view: ReportView | ComparisonView, name: str) -> str:
    module = importlib.import_module(FORMATS[name][0])
    text: str = module.render(view) if isinstance(view, ReportView) else module.render_comparison(view)
    return text


def write(path: Path, text: str) -> None:
    """Replace the file atomically: a reader sees the old content or the new content, never a part."""
    require_place(path)
    try:
        if path.exists() and not path.is_file():  # a pipe or /dev/stdout cannot be replaced
            path.write_text(text, encoding="utf-8")
            return
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(part).chmod(stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask())
            os.replace(part, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(part)
            raise
    except OSError as error:
        raise DriftlineError(f"--out {path} cannot be written: {error.strerror}. Name another file.") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
