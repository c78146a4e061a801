"""`--causes DIR`: further causes, beside those that come with Driftline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from driftline.cli.settings import naming_the_file, settings_of_run

if TYPE_CHECKING:
    from driftline.causes import Library

F = TypeVar("F", bound=Callable[..., Any])


def causes_option(function: F) -> F:
    return click.option(
        "--causes",
        "folders",
        type=click.Path(path_type=Path),
        multiple=True,
        metavar="DIR",
        help="Folder of your own causes, as DIR/<compiler>/<name>.toml; may be repeated. Bugs that a cause with"
        " `accepted = true` explains do not count.",
    )(function)


def library_of(folders: Sequence[Path]) -> Library:
    """All causes of this run: those of the command line, else of driftline.toml, beside the built-in ones."""
    from driftline.causes import load

    if folders:
        return load(folders)
    settings = settings_of_run("causes")
    with naming_the_file(settings.said_by("causes") if settings.causes else ""):
        return load(settings.causes)
