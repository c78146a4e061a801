"""`driftline reduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from driftline.cli.cause_options import causes_option, library_of
from driftline.cli.clock import elapsed
from driftline.cli.common import (
    json_option,
    note,
    on_terminal,
    parse_budget,
    plugin_option,
    print_json,
    seed_option,
    sizes_options,
    store_option,
    trust_option,
)
from driftline.cli.explaining import failing_for
from driftline.core.errors import DriftlineError, InternalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from driftline.campaign.reduction import Reduced
    from driftline.causes import Cause
    from driftline.core.program import Program
    from driftline.diagnose.reduce.search import ReductionStep

_SUFFIXES = {"onnx": ".onnx", "source": ".py", "torch": ".pt2", "tflite": ".tflite"}


@click.command()
@click.argument("subject", metavar="BUG|CASE|PROGRAM")
@click.option("--budget", default="5m", show_default=True, help="Time for it: 90s, 5m, 1h.")
@click.option("--target", metavar="TARGET", help="The target of a PROGRAM; of a bug, another than its own.")
@click.option("--inputs", metavar="FILE.npz|example|random|specials", default="example", help="Inputs of a PROGRAM.")
@sizes_options
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Also write the reduced program here.")
@seed_option
@store_option
@plugin_option
@trust_option
@causes_option
@json_option
def reduce(
    subject: str,
    budget: str,
    target: str | None,
    inputs: str,
    dims: tuple[str, ...],
    shapes: tuple[str, ...],
    out: Path | None,
    seed: int,
    store: Path,
    plugins: tuple[str, ...],
    folders: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Make a failing program as small as it gets, so that it still fails in the same way.

    BUG is a name from `driftline bugs list`, CASE the id of one of its cases. A PROGRAM (model.onnx, model.pt2,
    file.py:name) is checked first and must fail on the target.

    \b
      driftline reduce onnxruntime-1f3a
      driftline reduce model.onnx --target onnxruntime --budget 10m --out small.onnx
      driftline reduce bert.onnx --target onnxruntime --dim batch=2,seq=16

    Single operators are asked first: one that fails by itself is what is made smaller, however large the program is.
    Otherwise operators are taken away; then come shapes, attributes, layouts, numbers, dtypes and options of the
    target. Everything that was asked is kept: after an interruption the same command goes on where it was. --out takes
    a name that ends in .onnx for an ONNX model, in .py for all others. Exit code 1: it still fails, smaller than before
    or as small as it was; the result is kept with the bug.
    """
    from driftline.campaign.failing import is_program
    from driftline.campaign.reduction import reduce_failing
    from driftline.campaign.session import check_strategy
    from driftline.checking.checker import Checker
    from driftline.cli import report_internal_error
    from driftline.core.case import CheckOptions
    from driftline.core.output_place import require_place
    from driftline.core.plugins import load_plugins
    from driftline.core.target import Target
    from driftline.execute.pool import Pool
    from driftline.inputs.sizes import Sizes
    from driftline.report.annotated import causes_of
    from driftline.report.results import SCHEMA
    from driftline.store import Store

    seconds = max(1.0, parse_budget(budget) - elapsed())  # a program is checked outside of it
    library = library_of(folders)
    if out:
        require_place(out)
    load_plugins(plugins)
    check_strategy(inputs)
    sizes = Sizes.parse(dims, shapes)
    wanted = Target.parse(target) if target else None
    options = CheckOptions(seed=seed, plugins=tuple(str(Path(p).resolve()) for p in plugins))
    if not is_program(subject):
        Store.open(store).close()  # a store that is not there must not be made by asking
    with Store.create(store) as kept, Pool() as pool:
        checker = Checker(pool)
        failing = failing_for(subject, kept, checker, target=wanted, inputs=inputs, sizes=sizes, options=options)
        if out:
            _require_suffix(out, _forms_to_come(failing.case.program))
        with _Progress() as progress:
            reduced = reduce_failing(
                checker, kept, failing, budget=seconds, alone=True, library=library, listener=progress
            )
        if out:
            _write(reduced, out)  # before anything is shown: a refusal says where the result is
        causes = causes_of(kept.bug(failing.bug.id), library)
        if as_json:
            print_json({"schema": SCHEMA, **reduced.body, "causes": [cause.note() for cause in causes]})
        else:
            _show(reduced, causes, out)
    if reduced.reduction.internal_errors:
        report_internal_error(reduced.reduction.internal_errors[0])
        return InternalError.exit_code
    return 1


class _Progress:
    """Size over time: one live line on a terminal, a line for each step elsewhere."""

    def __init__(self) -> None:
        self._status: Any = None

    def __enter__(self) -> _Progress:
        if on_terminal():
            from driftline.report.screen import Screen

            self._status = Screen(stderr=True).status("Reducing ...")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def __call__(self, step: ReductionStep) -> None:
        line = f"{step.seconds:6.1f} s  {step.queries:4d} asked  {step.size}  ({step.what})"
        if self._status:
            self._status.update(f"Reducing: {line}")
        else:
            note(line)


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
    """Nobody looks for an ONNX model in a file that is called Python."""
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
