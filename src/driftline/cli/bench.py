"""`driftline bench`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.bench.suite import DTYPES, FULL, SMALL, SUITE, described
from driftline.cli.common import json_option, note, plugin_option, print_json, seed_option
from driftline.cli.completing import complete_targets
from driftline.cli.filled import filled
from driftline.core.errors import DriftlineError

if TYPE_CHECKING:
    from driftline.bench.result import BenchRun

_BACKENDS = "eager,inductor,onnxruntime,openvino"


@dataclass(frozen=True)
class _BenchOptions:
    """The options of `driftline bench` that say what to measure."""

    models: str
    backends: str
    size: str
    dtype: str
    repeat: int
    seconds: float
    verdict: bool
    timeout: float
    seed: int


class _WithSuite(click.Group):
    """Its help ends with the models of the suite."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Models"):
            formatter.write_dl(list(described()))


@click.group(cls=_WithSuite, invoke_without_command=True)
@click.option("--models", metavar="M1,M2", default=",".join(SUITE), show_default=True, help="Models of the suite.")
@click.option(
    "--backends",
    shell_complete=complete_targets,
    metavar="T1,T2",
    default=_BACKENDS,
    show_default=True,
    help="Targets as everywhere, such as inductor:freezing=true or mock:profile=npu. Eager is always measured.",
)
@click.option(
    "--size",
    type=click.Choice([FULL, SMALL]),
    default=FULL,
    show_default=True,
    help="As the papers have them, or small: seconds in place of minutes.",
)
@click.option("--dtype", type=click.Choice(DTYPES), default="float32", show_default=True, help="Of weights and inputs.")
@click.option(
    "--repeat",
    type=click.IntRange(8),
    default=20,
    show_default=True,
    help="Rounds in which eager and a target run in turn.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.0),
    default=60.0,
    show_default=True,
    help="Begin no further round of a target after so long; eight are made in any case.",
)
@click.option(
    "--verdict/--no-verdict", default=True, show_default=True, help="Also ask the oracle whether results are right."
)
@click.option(
    "--timeout", type=click.FloatRange(1.0), default=900.0, show_default=True, help="Seconds for one step of a target."
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder to write to.  [default: bench-results/TIME]"
)
@seed_option
@plugin_option
@json_option
@click.pass_context
@filled(_BenchOptions)
def bench(
    context: click.Context, asked: _BenchOptions, out: Path | None, plugins: tuple[str, ...], as_json: bool
) -> int:
    """Measure real models on several compilers: compile time, latency, memory, graph breaks, verdict, speed-up.

    \b
      driftline bench --size small                             a first look, in a few minutes
      driftline bench --models bert,resnet18 --backends inductor,onnxruntime,openvino
      driftline bench --models bert --backends mock:profile=matrix32:strict=false
      driftline bench --models bert --backends inductor:device=cuda --dtype bfloat16
      driftline bench compare bench-results/old bench-results/new

    Models are built from their configurations with seeded weights; nothing is downloaded. Each target compiles in a
    process of its own, and takes turns with eager. A speed-up is the median of the paired ratios with its 99 %
    bootstrap interval, by CPU time (on a GPU by wall time); within what eager shows against itself, nothing is
    concluded. bench.json and bench.html are written to --out as the run goes on.

    Exit codes: 0 measured, 1 a target computes something wrong, 4 a backend is not available, 5 nothing was timed; 2
    and 3 as everywhere.
    """
    if context.invoked_subcommand is not None:
        return 0
    from driftline.bench.result import FILE, PAGE
    from driftline.bench.text import show_run
    from driftline.bench.timing import UNAVAILABLE
    from driftline.core.plugins import load_plugins

    load_plugins(plugins)
    run, folder = _measure(asked, out, tuple(str(Path(p).resolve()) for p in plugins))
    if as_json:
        print_json({"folder": str(folder), **run.to_json()})
    else:
        show_run(run)
    note(f"Written to {folder / FILE} and {folder / PAGE}.")
    if any(row.verdict == "fail" for row in run.rows):
        return 1
    if any(row.outcome == UNAVAILABLE for row in run.rows):
        return 4
    return 0 if any(row.speedup for row in run.rows) else 5


def _measure(asked: _BenchOptions, out: Path | None, plugins: tuple[str, ...]) -> tuple[BenchRun, Path]:
    """Measure the models; return the run and its folder, to which the run is written as it goes on."""
    from driftline.backends import resolve
    from driftline.bench.options import BenchOptions
    from driftline.bench.page import run_page
    from driftline.bench.result import PAGE
    from driftline.bench.runner import run_bench
    from driftline.bench.suite import chosen_models
    from driftline.checking.checker import Checker
    from driftline.core.target import parse_targets
    from driftline.execute.pool import Pool
    from driftline.report.progress import StepProgress

    names = chosen_models(asked.models)
    targets = parse_targets(asked.backends)
    for target in targets:
        resolve(target)
    folder = _make_folder(out)

    def keep(run: BenchRun) -> None:
        run.write(folder)
        (folder / PAGE).write_text(run_page(run))

    options = BenchOptions(
        asked.size, asked.dtype, asked.repeat, asked.seconds, asked.verdict, asked.seed, asked.timeout, plugins=plugins
    )
    with Pool() as pool, StepProgress("Measuring") as progress:
        return run_bench(Checker(pool), names, targets, options, listener=progress, keep=keep), folder


def _make_folder(out: Path | None) -> Path:
    from driftline.bench.result import FILE

    folder = out or Path("bench-results") / time.strftime("%Y%m%d-%H%M%S")
    if (folder / FILE).exists():
        raise DriftlineError(f"--out {folder}: it holds a run already; name another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DriftlineError(f"--out {folder}: the folder cannot be made: {error.strerror}.") from error
    return folder


@bench.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@json_option
def compare(before: Path, after: Path, as_json: bool) -> int:
    """Say what changed from one run to another beyond noise. BEFORE and AFTER are folders that --out names.

    Exit codes: 0 nothing is worse, 1 something is.
    """
    from driftline.bench.compare import compare_runs
    from driftline.bench.result import read_run
    from driftline.bench.text import show_comparison

    found = compare_runs(read_run(before), read_run(after), (str(before), str(after)))
    if as_json:
        print_json(found.to_json())
    else:
        show_comparison(found)
    return 1 if found.worse else 0
