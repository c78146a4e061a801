"""What commands share: options with one spelling, JSON on stdout."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from driftline.cli.settings import IGNORED_SETTINGS, settings_of_run
from driftline.core.closing import FailedStep
from driftline.core.config import default_store
from driftline.core.errors import DriftlineError
from driftline.core.text import to_json
from driftline.core.times import parse_budget
from driftline.execute.processors import usual_jobs
from driftline.report.progress import Activity, Ticker, note, on_terminal, progress_line

# With the options, what most commands import.
__all__ = ["Activity", "Ticker", "note", "on_terminal", "parse_budget", "progress_line"]

F = TypeVar("F", bound=Callable[..., Any])


def store_option(function: F) -> F:
    return click.option(
        "--store",
        type=click.Path(path_type=Path, file_okay=False),
        default=store_of_run,
        show_default="$DRIFTLINE_STORE, driftline.toml or .driftline",
        help="Folder that keeps what is found.",
    )(function)


def store_of_run() -> Path:
    if "DRIFTLINE_STORE" in os.environ:
        return default_store()
    return settings_of_run("store").store or _own_folder(default_store())


def _own_folder(store: Path) -> Path:
    """The default folder, unless a repository has a link in its place that leads elsewhere."""
    if store.is_symlink() and not store.resolve().is_relative_to(Path.cwd()):
        raise DriftlineError(
            f"{store} is a link to {store.resolve()}. If you made it, say --store {store}; otherwise remove it."
        )
    return store


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout; the schema is in docs/json.md.")(
        function
    )


def seed_option(function: F) -> F:
    return click.option(
        "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all random draws."
    )(function)


def jobs_option(text: str) -> Callable[[F], F]:
    """`text`: what of the command runs at the same time."""

    def add(function: F) -> F:
        return click.option(
            "--jobs",
            type=click.IntRange(1),
            default=usual_jobs,
            show_default="the processors, as far as the memory suffices",
            help=text,
        )(function)

    return add


def sizes_options(function: F) -> F:
    """How large inputs to make of a program: `--dim` and `--shape`."""
    for option in (
        click.option(
            "--shape",
            "shapes",
            metavar="INPUT=AxBxC",
            multiple=True,
            help="Shape of an input of a PROGRAM: input_ids=2x128. Several shapes in one check: x=2x8/3x8.",
        ),
        click.option(
            "--dim",
            "dims",
            metavar="NAME=SIZE",
            multiple=True,
            help="Size of a dimension that a PROGRAM leaves open, by its name: batch=2,seq=128. Several sizes in one"
            " check: seq=16/33.",
        ),
    ):
        function = option(function)
    return function


def plugin_option(function: F) -> F:
    return click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="FILE.py",
        help="Python file that registers further backends; may be repeated. What only a store names is not loaded.",
    )(function)


def trust_option(function: F) -> F:
    """`--trust`: the files of this run may bring code."""

    def vouch(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        from driftline.programs.archive_scan import trust

        trust(value)

    return click.option(
        "--trust",
        is_flag=True,
        expose_value=False,
        callback=vouch,
        help="Load .pt2 archives that hold pickled code, which then runs; without it they are refused.",
    )(function)


def print_json(value: Any) -> None:
    """Print the result of a command; settings of the project that were ignored are part of it."""
    context = click.get_current_context(silent=True)
    ignored = context.find_root().meta.get(IGNORED_SETTINGS) if context else None
    if ignored and isinstance(value, dict):
        value = {**value, "ignored_settings": ignored}
    click.echo(to_json(value, indent=1))


def tell_failed(failed: Sequence[FailedStep]) -> None:
    """One line for each step at the end of a run that failed; --json has where, too."""
    for step in failed:
        note(f"driftline: {step.sentence}.")
