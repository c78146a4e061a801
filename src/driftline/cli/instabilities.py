"""`driftline instabilities`: models on many runtimes and inputs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.branching import BranchingCommand
from driftline.cli.common import (
    jobs_option,
    json_option,
    note,
    parse_budget,
    plugin_option,
    print_json,
    seed_option,
    store_option,
)
from driftline.cli.filled import filled
from driftline.core.errors import DriftlineError
from driftline.core.quoting import shell

if TYPE_CHECKING:
    from driftline.instabilities.run import RunResult

FRAMEWORKS = "pytorch,torch_compile,onnx,openvino,xla"


@dataclass(frozen=True)
class _RunOptions:
    """The options of `driftline instabilities`."""

    models: Path
    inputs: str
    specs: tuple[str, ...]
    frameworks: str
    out: Path
    budget: str
    timeout: float
    jobs: int
    seed: int


@click.command(cls=BranchingCommand)
@click.option(
    "--models",
    type=click.Path(path_type=Path),
    required=True,
    help="A folder of models: of `driftline compose`, or yours.",
)
@click.option(
    "--inputs",
    metavar="SOURCE",
    default="specials",
    show_default=True,
    help="specials (finite numbers at which operators break), symbolic (solved for each model), or a file or folder of"
    " inputs.",
)
@click.option(
    "--spec",
    "specs",
    metavar="NAME:DTYPE[SHAPE]",
    multiple=True,
    help="What the bytes of KLEE's test cases are, as in input:float32[3]; may be repeated.",
)
@click.option(
    "--frameworks",
    metavar="F1,F2",
    default=FRAMEWORKS,
    show_default=True,
    help="pytorch, torch_compile, onnx (ONNX Runtime), or any target of `driftline check`. Those that are not here are"
    " named and skipped.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="The folder of the run; an unfinished one goes on."
)
@click.option("--budget", metavar="TIME", default="2s", show_default=True, help="To solve the inputs of one model.")
@click.option("--timeout", type=click.FloatRange(1), default=60.0, show_default=True, help="Seconds for one model.")
@jobs_option("What runs at the same time.")
@seed_option
@store_option
@plugin_option
@json_option
@filled(_RunOptions)
def instabilities(asked: _RunOptions, store: Path, plugins: tuple[str, ...], as_json: bool) -> int:
    """Run every model on every input with every framework, and count what goes wrong.

    \b
    Of each result are counted:
      NaN, Inf        elements
      overflow        infinite, where the float64 result is finite
      underflow       zero or subnormal, where the float64 result is neither
      disagreement    not what the float64 result is in the model's dtype: NaN or infinite where that is not, or
                      further off than 1 % (10 % for half numbers)
      errors          runs that end in an error, a crash or a time-out

    \b
      driftline compose --out models --ops exp,log,div,sub,softmax --length 2 --all
      driftline instabilities --models models --inputs symbolic --out run
      driftline instabilities --models models --frameworks pytorch,torch_compile,tvm --out run
      driftline instabilities report --runs run --out report

    RUN/models has a JSON file for each model, RUN/inputs what they were run on; summary.csv and summary.md have it all.
    What the oracle calls wrong, a NaN that another runtime does not have among it, is checked again in a fresh process
    and kept in the store. A run that was interrupted or killed goes on with the same command; with further
    --frameworks, those alone are run.

    Exit codes: 0 nothing is wrong, 1 findings, 130 interrupted (go on with the same command); others as everywhere.
    """
    from driftline.instabilities.summary import write_summary
    from driftline.report.progress import RunProgress
    from driftline.workbench import Workbench

    seconds = parse_budget(asked.budget)
    with Workbench(store, plugins=plugins, jobs=asked.jobs) as bench:
        try:
            with RunProgress("Measuring") as progress:
                result = bench.instabilities(
                    asked.models, asked.out, inputs=asked.inputs, frameworks=asked.frameworks, seed=asked.seed,
                    timeout=asked.timeout, solving=seconds, specs=asked.specs, listener=progress,
                )  # fmt: skip
        except KeyboardInterrupt:
            command = shell(["driftline", "instabilities", "--models", asked.models, "--inputs", asked.inputs,
                             *(word for spec in asked.specs for word in ("--spec", spec)), "--frameworks",
                             asked.frameworks, "--out", asked.out, "--seed", asked.seed, "--store", store])  # fmt: skip
            note(f"driftline: interrupted; everything so far is kept. Go on with: {command}")
            return 130
        table, page = write_summary(asked.out, result.records, result.skipped, result.bugs.values())
    if as_json:
        from driftline.instabilities.summary import COLUMNS, summary_rows

        rows = [dict(zip(COLUMNS, row, strict=True)) for row in summary_rows(result.records)]
        skipped = [{"target": str(one.target), "reason": one.reason} for one in result.skipped]
        print_json({
            "schema": 1, "folder": str(asked.out), "rows": rows, "skipped": skipped, "bugs": list(result.bugs),
            "resumed": result.resumed,
        })  # fmt: skip
    else:
        _show(result, table, page)
    return 1 if result.bugs else 0


def _show(result: RunResult, table: Path, page: Path) -> None:
    from driftline.instabilities.summary import COUNTED, frameworks_of
    from driftline.report.words import plural

    for one in result.skipped:
        click.echo(f"skipped {one.target}: {one.reason}")
    width = max((len(name) for name in frameworks_of(result.records)), default=0)
    for name in frameworks_of(result.records):
        own = [one for record in result.records for one in record.runtimes if one.framework == name]
        counted = ", ".join(f"{sum(one.total(column) for one in own):,} {column}" for column in COUNTED)
        errors, refused = sum(one.errors for one in own), sum(one.rejected for one in own)
        wrong = sum(bool(one.bugs) for one in own)
        click.echo(
            f"{name.ljust(width)}  {plural(len(own), 'model')}: {counted}, {plural(errors, 'error')},"
            f" {refused} rejected; wrong on {plural(wrong, 'model')}"
        )
    conflicts = sum(bool(record.conflicts) for record in result.records)
    click.echo(f"Runtimes disagree about NaN or infinity on {plural(conflicts, 'model')}.")
    for bug in result.bugs.values():
        click.echo(f"  {bug.id}  {bug.summary}")
    click.echo(f"{table}\n{page}")


@instabilities.branch
@click.command()
@click.option(
    "--runs", "first", type=click.Path(path_type=Path), required=True, metavar="RUN...", help="Runs to compare."
)
@click.argument("more", nargs=-1, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The folder to write the report to.")
@click.option(
    "--map", "model", metavar="MODEL", default="", help="Map this model; default: the least stable of two inputs."
)
@click.option("--no-map", is_flag=True, help="Draw only what was measured; a map runs one model again on 2,401 points.")
@json_option
def report(first: Path, more: tuple[Path, ...], out: Path, model: str, no_map: bool, as_json: bool) -> int:
    """Put runs together: one table, what changed between them, and pictures.

    \b
      driftline instabilities report --runs run --out report
      driftline instabilities report --runs before after --out report --no-map

    \b
    summary.csv, summary.md   all runs, and what came out otherwise than in the first
    models.png                NaN, Inf and errors of the least stable models, as stacked bars
    frameworks.png            frameworks against models, as a heat map
    errors.png                the worst relative error of each model on each framework
    map-MODEL.png             where in the plane of its two inputs a model breaks, on each framework
    """
    from driftline.checking.checker import Checker
    from driftline.execute.pool import Pool
    from driftline.instabilities.comparison import read_runs, write_report

    if model and no_map:
        raise DriftlineError("Give --map or --no-map, not both.")
    runs = read_runs([first, *more])
    if out.exists() and not out.is_dir():
        raise DriftlineError(f"--out {out}: it is a file; name a folder.")
    if no_map:
        written = write_report(runs, out, say=note)
    else:
        with Pool() as pool:
            written = write_report(runs, out, Checker(pool), model, say=note)
    if as_json:
        print_json({"schema": 1, "files": [str(path) for path in written.files], "notes": list(written.notes)})
    else:
        for line in written.notes:
            click.echo(line)
        click.echo("\n".join(map(str, written.files)))
    return 0
