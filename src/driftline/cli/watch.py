"""`driftline watch`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.clock import elapsed
from driftline.cli.common import jobs_option, json_option, note, parse_budget, plugin_option, print_json, store_option
from driftline.cli.filled import filled
from driftline.cli.settings import settings_of_run
from driftline.cli.verdict_options import accept_option
from driftline.core.errors import NOTHING_COMPARED, DriftlineError

if TYPE_CHECKING:
    from driftline.campaign.hunt.watching import WatchResult


@dataclass(frozen=True)
class _WatchOptions:
    """The options of `driftline watch` that say what a round does."""

    budget: str | None
    programs: int | None
    no_hunt: bool
    release: str
    stable: bool
    installed: bool
    seed: int | None
    jobs: int
    accept: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return 0.0 if self.no_hunt or self.programs else parse_budget(self.budget or "1h")

    def validate(self, compilers: tuple[str, ...]) -> None:
        """Raise an error for options that cannot be used together."""
        if sum((bool(self.release), self.stable, self.installed)) > 1:
            raise DriftlineError("Give one of --release, --stable and --installed.")
        if self.release and len(compilers) > 1:
            raise DriftlineError("--release is of one compiler; name one, or leave it out.")
        if sum((bool(self.budget), bool(self.programs), self.no_hunt)) > 1:
            raise DriftlineError("Give one of --budget, --programs and --no-hunt.")


@click.command()
@click.argument("compilers", nargs=-1, required=True, metavar="COMPILER...")
@click.option("--budget", metavar="TIME", help="How long to hunt, after the replays.  [default: 1h]")
@click.option(
    "--programs", type=click.IntRange(1), help="Stop each compiler after so many programs, instead of a time."
)
@click.option("--no-hunt", is_flag=True, help="Only replay what is known.")
@click.option("--release", metavar="VERSION", default="", help="This release, instead of the newest.")
@click.option("--stable", is_flag=True, help="The newest release that is no pre-release.")
@click.option("--installed", is_flag=True, help="The release that is installed here; nothing is downloaded.")
@click.option(
    "--seed",
    type=click.IntRange(0),
    help="Seed of the hunt; default: the date, so that each night makes other programs.",
)
@jobs_option("What the hunt runs at the same time.")
@accept_option
@click.option(
    "--out",
    "outs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Write what is new, back and fixed here: .md, .json or .xml (JUnit); may be repeated.",
)
@store_option
@plugin_option
@json_option
@filled(_WatchOptions)
def watch(
    compilers: tuple[str, ...],
    asked: _WatchOptions,
    outs: tuple[Path, ...],
    store: Path,
    plugins: tuple[str, ...],
    as_json: bool,
) -> int:
    """Watch compilers: replay every known bug on their newest release, hunt there, and say what changed.

    One round, for a job that runs every night: the newest release of each COMPILER, pre-releases included, is installed
    into an environment of its own, unless it is the one that is here. All bugs of it in the store are replayed there;
    then programs are made and run for a while. What is new, what is fixed and what is back since the last round is
    printed and written; the store remembers it for the next one.

    \b
      driftline watch onnxruntime --out watch.md --out watch.xml
      driftline watch inductor tvm --budget 30m --stable
      driftline watch onnxruntime --release 1.23.0 --no-hunt
      0 3 * * *  driftline watch onnxruntime --store /data/watch      each night, in a crontab

    Exit codes: 0 nothing new and nothing back, 1 bugs are new or back, 2 usage, or a release cannot be installed, 3
    Driftline itself failed somewhere, 4 a compiler is not available, 5 nothing came to a verdict. Nightly builds are
    found if pip is told where they are (PIP_EXTRA_INDEX_URL). What --accept (or driftline.toml) names is no bug.
    """
    from driftline.core.plugins import load_plugins
    from driftline.events import Event, Working
    from driftline.report.hunt_progress import HuntProgress
    from driftline.report.watch import require_suffix, write
    from driftline.workbench import Workbench

    load_plugins(plugins)
    asked.validate(compilers)
    for out in outs:
        require_suffix(out)
    agreed = _accepted(asked.accept)
    with Workbench(store, plugins=plugins, jobs=asked.jobs) as bench, HuntProgress(elapsed()) as progress:

        def listener(event: Event) -> None:
            if isinstance(event, Working) and event.part == "watch":
                note(event.words)
            else:
                progress(event)

        result = bench.watch(
            compilers,
            release=asked.release,
            pre=not asked.stable,
            installed=asked.installed,
            seconds=asked.seconds,
            programs=asked.programs or 0,
            seed=int(time.strftime("%Y%m%d", time.gmtime())) if asked.seed is None else asked.seed,
            accept=agreed,
            listener=listener,
        )
    for out in outs:
        write(result, store, out)
    _show(result, as_json)
    return _exit_code(result)


def _accepted(typed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the accepted arithmetic: of the command line, else of driftline.toml."""
    from driftline.checking.accept import parse_accept

    project = settings_of_run("accept")
    return parse_accept(typed) if typed else parse_accept(project.accept, project.said_by("accept"))


def _show(result: WatchResult, as_json: bool) -> None:
    from driftline.checking.result import Standing
    from driftline.report.results import SCHEMA
    from driftline.report.watch import headline

    if as_json:
        print_json({"schema": SCHEMA, **result.to_json()})
        return
    for one in result.bugs:
        if one.standing in (Standing.NEW, Standing.BACK, Standing.FIXED):
            click.echo(f"{one.standing:<5}  {one.bug.id}  {one.target}  {one.what}")
    click.echo(headline(result))


def _exit_code(result: WatchResult) -> int:
    from driftline.checking.result import Standing
    from driftline.cli import report_own_faults

    report_own_faults(result.hunt.internal_errors if result.hunt else ())
    if result.those(Standing.NEW) or result.those(Standing.BACK):
        return 1
    return 0 if result.compared else NOTHING_COMPARED
