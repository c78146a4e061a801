"""`driftline inductor`: the TorchInductor lab."""

from __future__ import annotations

from pathlib import Path

import click

from driftline.cli.common import Activity, json_option, note, print_json, seed_option
from driftline.cli.completing import complete_program
from driftline.cli.filled import filled
from driftline.core.text import plural
from driftline.inductor.lab import DEFAULT, REPORT, Lab, LabRun
from driftline.inductor.settings import TIMEOUT, LabSettings

_FOLDER = click.argument("folder", type=click.Path(path_type=Path), default=DEFAULT)

_OUT = click.option(
    "--out", type=click.Path(path_type=Path), default=DEFAULT, show_default=True, help="The lab folder to write to."
)
_DYNAMIC = click.option("--dynamic/--static", default=None, help="As torch.compile(dynamic=...); default: automatic.")
_TIMEOUT = click.option("--timeout", type=float, default=TIMEOUT, show_default=True, help="Seconds.")


@click.group()
def inductor() -> None:
    """The TorchInductor lab: see what torch.compile makes of a model, kernel by kernel.

    \b
      driftline inductor capture model.py:make --grad     graphs, IR, kernels and guards, on one page
      driftline inductor guards model.py:make --shape x=2x8/3x8/4x8
      driftline inductor diff model.py:make --backend inductor --pictures
      driftline inductor analyze --type guards            what the last run in the lab folder says
      driftline inductor report --format html --out lab.html
      driftline inductor clean                            remove what the lab wrote, and nothing else

    Runs are kept in a lab folder (default: inductor-lab), each in a folder of its own.
    """


@inductor.command()
@click.argument("program", shell_complete=complete_program)
@_OUT
@click.option("--grad", is_flag=True, help="Also compile and run the backward pass.")
@_DYNAMIC
@click.option("--backend", default="inductor", show_default=True, help="The backend of torch.compile.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, help="Where to run.")
@seed_option
@_TIMEOUT
@json_option
@filled(LabSettings)
def capture(program: str, out: Path, asked: LabSettings, as_json: bool) -> int:
    """Keep everything that torch.compile makes of PROGRAM (file.py:name, model.pt2 or model:NAME).

    Graphs of every stage, Inductor's IR before and after fusion, kernels, guards, statistics and times, as files and as
    one offline page on which a source line, a node and its kernel are followed to each other.
    """
    from driftline.execute.pool import Pool
    from driftline.inductor.service import capture_program

    with Pool() as pool, Activity("capturing", 60).beat() as activity:
        run, problem = capture_program(program, pool, out, asked, activity)
    if as_json:
        print_json({"schema": 1, "folder": str(run.folder), "problem": problem, **run.summary})
    else:
        click.echo(f"{_told(run)}.\nOpen {run.folder / 'index.html'}")
        if problem:
            click.echo(f"The compiler raised {problem}")
    return 1 if problem else 0


@inductor.command()
@click.argument("program", shell_complete=complete_program)
@_OUT
@click.option(
    "--shape",
    "shapes",
    metavar="INPUT=AxB/CxD",
    multiple=True,
    help="Call the program with these shapes, one after the other: x=2x8/3x8. What is compiled again is explained.",
)
@click.option("--grad", is_flag=True, help="With gradients on.")
@_DYNAMIC
@seed_option
@_TIMEOUT
@json_option
@filled(LabSettings)
def guards(program: str, out: Path, shapes: tuple[str, ...], asked: LabSettings, as_json: bool) -> None:
    """Show the graphs, graph breaks, guards and recompilations of PROGRAM, with advice."""
    from driftline.execute.pool import Pool
    from driftline.inductor.service import inspect_program
    from driftline.inputs.sizes import Sizes

    sizes = Sizes.parse((), shapes).shapes
    with Pool() as pool, Activity("inspecting", 20).beat() as activity:
        run = inspect_program(program, pool, out, asked, shapes=sizes, listener=activity)
    if as_json:
        print_json(run.read_json("guards.json"))
    else:
        click.echo(run.read("guards.txt"))
        note(f"Kept in {run.folder}.")


@inductor.command()
@click.argument("program", shell_complete=complete_program)
@_OUT
@click.option("--backend", default="inductor", show_default=True, help="The backend of torch.compile to test.")
@click.option("--reference", default="eager", show_default=True, help="The backend to hold it against.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, help="Where to run.")
@click.option("--grad", is_flag=True, help="Compare gradients too.")
@click.option("--runs", type=click.IntRange(1), default=1, show_default=True, help="Runs of the tested backend.")
@click.option("--pictures", is_flag=True, help="Also draw where the differences lie (needs driftline[lab]).")
@seed_option
@_TIMEOUT
@json_option
@filled(LabSettings)
def diff(program: str, out: Path, asked: LabSettings, as_json: bool) -> int:
    """Compare what two backends of torch.compile make of PROGRAM, output by output.

    The oracle judges; where it cannot, the tolerances of torch.testing do, and it is said so. Exit code 1: something is
    wrong.
    """
    from driftline.execute.pool import Pool
    from driftline.inductor.service import diff_program

    with Pool() as pool, Activity("comparing", 60).beat() as activity:
        run = diff_program(program, pool, out, asked, activity)
    result = run.read_json("diff.json")
    if as_json:
        print_json({"folder": str(run.folder), **result})
    else:
        click.echo(result["summary"])
        for text in result["notes"]:
            click.echo(text)
        note(f"Kept in {run.folder}.")
    return 0 if result["passed"] else 1


@inductor.command()
@_FOLDER
@click.option(
    "--type",
    "what",
    type=click.Choice(["guards", "constraints", "summary"]),
    default="summary",
    show_default=True,
    help="Guards and recompilations; what a mock backend found against its profile; or statistics of every graph.",
)
@json_option
def analyze(folder: Path, what: str, as_json: bool) -> None:
    """Say what the last run in a lab folder found."""
    from driftline.cli.inductor_text import constraints_text, guards_text, summary_text
    from driftline.inductor.analysis import analyze_constraints, analyze_guards, analyze_summary

    read, text = {
        "guards": (analyze_guards, guards_text),
        "constraints": (analyze_constraints, constraints_text),
        "summary": (analyze_summary, summary_text),
    }[what]
    result = read(Lab(folder))
    if as_json:
        print_json(result)
    else:
        click.echo(text(result))


@inductor.command()
@_FOLDER
@click.option("--format", "form", type=click.Choice(["html", "json"]), default="html", show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The file to write; JSON goes to stdout.")
def report(folder: Path, form: str, out: Path | None) -> None:
    """Write one report about all runs in a lab folder."""
    from driftline.core.text import to_json
    from driftline.inductor.analysis import report_html, report_json

    lab = Lab(folder)
    if form == "html":
        path = out or folder / REPORT
        report_html(lab, path)
        note(f"Written to {path}.")
        return
    text = to_json(report_json(lab), indent=1)
    if out is None:
        click.echo(text)
    else:
        out.write_text(text + "\n")
        note(f"Written to {out}.")


@inductor.command("list")
@_FOLDER
@json_option
def list_runs(folder: Path, as_json: bool) -> None:
    """List the runs in a lab folder: what was done to which model, and what came out.

    A folder without runs has none to list: exit code 0. `analyze` and `report` need one: exit code 2.
    """
    lab = Lab(folder)
    lab.require_folder()
    runs = lab.runs()
    if as_json:
        print_json({"schema": 1, "runs": [{"folder": str(run.folder), **run.to_json()} for run in runs]})
        return
    for run in runs:
        told = _told(run) if run.complete else "incomplete"
        click.echo(f"{run.made}  {run.kind:<8} {run.name}  {told}\n  {run.folder}")
    note(f"{plural(len(runs), 'run')} in {folder}." if runs else f"No runs in {folder}.")


@inductor.command()
@_FOLDER
@json_option
def clean(folder: Path, as_json: bool) -> None:
    """Remove the runs in a lab folder. Files that the lab did not write stay."""
    done = Lab(folder).clean()
    if as_json:
        print_json({"schema": 1, "runs": done.runs, "files": done.files, "kept": list(done.kept)})
        return
    click.echo(f"Removed {plural(done.runs, 'run')} ({plural(done.files, 'file')}) from {folder}.")
    for path in done.kept:
        click.echo(f"kept {path}: the lab did not write it")


def _told(run: LabRun) -> str:
    return ", ".join(run.summary_words())
