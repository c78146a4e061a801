"""`driftline serve`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.cause_options import causes_option, library_of
from driftline.cli.common import json_option, note, plugin_option, print_json, store_option
from driftline.cli.filled import filled
from driftline.cli.settings import settings_of_run
from driftline.core.errors import BackendUnavailable, DriftlineError
from driftline.inductor.lab import DEFAULT

if TYPE_CHECKING:
    from driftline.causes import Library
    from driftline.serve.settings import ServeSettings


@dataclass(frozen=True)
class _ServeOptions:
    """The options of `driftline serve`."""

    store: Path
    port: int
    host: str
    expose: bool
    read_only: bool
    browser: bool
    compare: tuple[Path, ...]
    shown: tuple[Path, ...]
    upload_limit: int
    cores: int | None
    folders: tuple[Path, ...]
    plugins: tuple[str, ...]


@click.command()
@store_option
@click.option("--port", type=click.IntRange(0, 65535), default=8777, show_default=True, help="0: any that is free.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; one that others reach needs --expose."
)
@click.option("--expose", is_flag=True, help="Let other machines in. The connection is not encrypted.")
@click.option("--read-only", is_flag=True, help="Show what is there; nothing can be started, and no token is needed.")
@click.option("--open", "browser", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--compare",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="STORE",
    help="Another store to compare this one with; may be repeated.",
)
@click.option(
    "--folder",
    "shown",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    help="A folder to look into: of the TorchInductor lab, of an instabilities report, or of other pages and pictures;"
    " may be repeated.  [default: inductor-lab, where it is]",
)
@click.option(
    "--upload-limit",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    metavar="MIB",
    help="Largest file to check.",
)
@click.option("--cores", type=click.IntRange(1), help="Cores that jobs may use together.  [default: all]")
@causes_option
@plugin_option
@json_option
@click.pass_context
@filled(_ServeOptions)
def serve(ctx: click.Context, asked: _ServeOptions, as_json: bool) -> int:
    """Show the store in a browser: browse bugs; start, watch and stop hunts, audits, diagnoses and checks.

    \b
      driftline serve                                      the address to open is printed
      driftline serve --open --store build/driftline
      driftline serve --read-only --host 0.0.0.0 --expose  for others to look at
      driftline serve --compare last-week                  with a second store beside it

    It listens on this machine alone. The printed address holds a token, without which nothing is shown or started; with
    --read-only there is none. Programs that are uploaded or pasted run in workers, as those of `driftline check` do:
    see docs/how-to/serve.md. Ctrl-C ends it and stops the jobs that run; they can be resumed.

    Exit codes: 0 when it was ended, 2 when it cannot start (no store, a port that is taken), 4 when its packages are
    not installed.
    """
    try:
        from driftline.serve import server
    except ModuleNotFoundError as error:
        raise BackendUnavailable(
            f"driftline serve needs {error.name}, which is not installed: pip install 'driftline[serve]'"
        ) from error

    server.require_expose(asked.host, asked.expose)
    library = library_of(asked.folders)
    chosen = ctx.get_parameter_source("store") is not click.core.ParameterSource.DEFAULT
    _require_places(asked, make=not chosen and not asked.read_only)
    settings = _settings(asked, library)
    listening = server.listen(asked.host, asked.port)
    printed = server.address(settings, listening.port)

    def ready() -> None:
        from driftline.serve.access import is_loopback

        if as_json:
            print_json({"schema": 1, "address": printed, "port": listening.port, "store": str(asked.store)})
            sys.stdout.flush()
            return
        note(f"Driftline shows {asked.store} at {printed}")
        if not is_loopback(asked.host):
            note("Other machines can reach it, and what is sent is not encrypted.")
        note("Ctrl-C ends it.")

    server.serve(settings, listening, ready=ready, browser=asked.browser)
    return 0


def _require_places(asked: _ServeOptions, *, make: bool) -> None:
    """Raise an error unless the stores and folders exist. `make`: create the store of the page if there is none."""
    from driftline.store import Store

    if make and not (asked.store / "store.db").exists():
        Store.create(asked.store).close()  # the first thing that somebody runs; a store that was named must be there
    for place in (asked.store, *asked.compare):
        Store.open(place).close()
    for folder in asked.shown:
        if not folder.is_dir():
            raise DriftlineError(f"--folder {folder}: there is no such folder.")


def _settings(asked: _ServeOptions, library: Library) -> ServeSettings:
    """Combine the options with those of driftline.toml."""
    from driftline.execute.processors import all_cores
    from driftline.serve.settings import MIB, ServeSettings

    project = settings_of_run("accept", "targets")
    return ServeSettings(
        store=asked.store,
        library=library,
        host=asked.host,
        read_only=asked.read_only,
        exposed=asked.expose,
        plugins=asked.plugins,
        causes=asked.folders or project.causes,
        compare=asked.compare,
        folders=asked.shown or tuple(folder for folder in (DEFAULT,) if folder.is_dir()),
        targets=project.targets or "",
        accept=project.accept,
        upload=asked.upload_limit * MIB,
        cores=asked.cores or all_cores(),
    )
