"""`driftline reduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.cause_options import causes_option, library_of
from driftline.cli.common import json_option, print_json
from driftline.cli.explaining import Explaining, ExplainOptions, explaining_options
from driftline.cli.reduce_script import ScriptToReduce, names_a_script_bug, reduce_script_file
from driftline.cli.script import is_script
from driftline.core.errors import DriftlineError
from driftline.report.progress import ReductionProgress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from driftline.campaign.explain.reduction import Reduced
    from driftline.causes import Cause
    from driftline.core.program import Program

_SUFFIXES = {"onnx": ".onnx", "source": ".py", "torch": ".pt2", "tflite": ".tflite"}


@click.command()
@explaining_options(budget="5m")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Also write the reduced program here.")
@causes_option
@json_option
def reduce(out: Path | None, folders: tuple[Path, ...], as_json: bool, given: ExplainOptions) -> int:
    """Make a failing program as small as it gets, so that it still fails in the same way.

    BUG is a name from `driftline bugs list`, CASE the id of one of its cases. A PROGRAM (model.onnx, model.pt2,
    file.py:name) is checked first and must fail on the target. A script that calls torch.compile itself (repro.py
    without a name, or the bug of a script) is made shorter, on its own backend or on --target.

    \b
      driftline reduce onnxruntime-1f3a
      driftline reduce model.onnx --target onnxruntime --budget 10m --out small.onnx
      driftline reduce bert.onnx --target onnxruntime --dim batch=2,seq=16
      driftline reduce repro.py --budget 3m --out short.py

    Single operators are asked first: one that fails by itself is what is made smaller, however large the program is.
    Otherwise operators are taken away; then come shapes, attributes, layouts, numbers, dtypes and options of the
    target. Everything that was asked is kept: after an interruption the same command goes on where it was. Of a bug
    that is right but slow, the smallest program that is still slow is found, by measuring. --out takes a name that ends
    in .onnx for an ONNX model, in .py for all others. Exit code 1: it still fails, smaller than before or as small as
    it was; the result is kept with the bug.
    """
    from driftline.core.output_place import require_place
    from driftline.report.annotated import causes_of
    from driftline.report.results import SCHEMA

    if is_script(given.subject) or names_a_script_bug(given.subject, given.store):
        return reduce_script_file(ScriptToReduce.of(given, out, as_json))
    library = library_of(folders)
    if out:
        require_place(out)
    with Explaining("Reducing", given, library) as asked:
        if out:
            _require_suffix(out, _forms_to_come(asked.failing.case.program))
        with ReductionProgress() as progress:
            reduced = asked.bench.reduce(asked.failing, seconds=asked.seconds, listener=progress)
        if out:
            _write(reduced, out)  # before anything is shown: a refusal says where the result is
        causes = causes_of(asked.bench.store.bug(asked.failing.bug.id), library)
        if as_json:
            print_json({"schema": SCHEMA, **reduced.body, "causes": [cause.note() for cause in causes]})
        else:
            _show(reduced, causes, out)
    return asked.exit_code(reduced.reduction.internal_errors)


def _show(reduced: Reduced, causes: Sequence[Cause], out: Path | None) -> None:
    from driftline.report.annotated import words_of
    from driftline.report.program import reduced_text

    reduction, body = reduced.reduction, reduced.body
    target = body["target"]
    click.echo(f"{reduced.failing.bug.id} on {target}: {reduction.before} -> {reduction.after} ({reduction.ended})")
    asked = f"{reduction.queries} asked, {reduction.remembered} known already, {reduction.seconds:.0f} s"
    click.echo(f"{reduction.form}; {asked}; case {body['case']}")
    if body["verdict"]:
        click.echo(f"fails: {body['verdict']['reason']}")
    for cause in causes:
        click.echo(words_of(cause))
    click.echo()
    click.echo(reduced_text(body))
    if body["nearest"]:
        click.echo("\nThe nearest program that passes:\n")
        click.echo(reduced_text(body, "nearest"))
    for other in reduced.others:
        click.echo(f"\nMet on the way, and kept: {other.id}  {other.summary[:150]}")
    if out:
        click.echo(f"\nWritten to {out}.")


def _forms_to_come(program: Program) -> tuple[str, ...]:
    """The forms that the reduced program may have: a graph is written as its framework writes it, else as it came."""
    return tuple(dict.fromkeys(("onnx" if program.framework == "onnx" else "source", program.form)))


def _require_suffix(out: Path, forms: Sequence[str], told: str = "") -> None:
    """A file must be called what it holds: an ONNX model in a .py file would not be found."""
    wanted = [_SUFFIXES[form] for form in forms]
    if out.suffix not in wanted:
        what = "an ONNX model" if forms[0] == "onnx" else "Python"
        raise DriftlineError(
            f"--out {out}: what comes out is {what}, so name a file that ends in {wanted[0]}, such as"
            f" {out.with_suffix(wanted[0])}.{told}"
        )


def _write(reduced: Reduced, out: Path) -> None:
    program = reduced.reduction.case.program
    bug = reduced.failing.bug.id
    kept = f" The reduction itself is done and kept: driftline bugs show {bug}."
    _require_suffix(out, (program.form,), kept)
    source = program.form == "source"
    content = reduced.body["program"]["text"].encode() if source else program.path.read_bytes()
    try:
        out.write_bytes(content)
    except OSError as error:
        raise DriftlineError(f"--out {out} cannot be written: {error.strerror}. Name another file.{kept}") from error
