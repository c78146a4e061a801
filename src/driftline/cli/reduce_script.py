"""`driftline reduce repro.py`: a script that calls `torch.compile` itself, made shorter."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from driftline.cli.common import Ticker, parse_budget, print_json
from driftline.core.errors import DriftlineError
from driftline.core.target import Target

if TYPE_CHECKING:
    from driftline.cli.explaining import ExplainOptions
    from driftline.diagnose.reduce.scripts.reducer import ScriptReduction
    from driftline.diagnose.reduce.scripts.search import ScriptStep

# The options of `reduce` that a script takes; --trust has done its work when this runs.
_TAKEN = ("subject", "target", "budget", "seed", "out", "as_json", "store", "trust", "plugins")


@dataclass(frozen=True)
class ScriptToReduce:
    """What was asked of a script on the command line."""

    path: Path
    target: Target | None  # none: the script's own backend
    seconds: float
    seed: int
    out: Path | None
    as_json: bool

    @staticmethod
    def of(given: ExplainOptions, out: Path | None, as_json: bool) -> ScriptToReduce:
        """Read the options of the command. Raises `DriftlineError` for one that means nothing to a script."""
        context = click.get_current_context()
        for option in context.command.params:
            source = option.name and context.get_parameter_source(option.name)
            if source is ParameterSource.COMMANDLINE and option.name not in _TAKEN:
                raise DriftlineError(
                    f"{option.opts[0]} is for a program that Driftline calls. A script calls torch.compile itself and"
                    f" makes its own inputs; reduce it without {option.opts[0]}."
                )
        target = Target.parse(given.target) if given.target else None
        return ScriptToReduce(Path(given.subject), target, parse_budget(given.budget), given.seed, out, as_json)


def reduce_script_file(asked: ScriptToReduce) -> int:
    """Make a script shorter, print the result, and return the exit code."""
    from driftline.core.output_place import require_place
    from driftline.diagnose.reduce.scripts.reducer import reduce_script
    from driftline.execute.pool import Pool
    from driftline.report.results import SCHEMA
    from driftline.scenarios.runs import ScriptOptions, require_script_target
    from driftline.scenarios.script import read_script

    if asked.target:
        require_script_target(asked.target)
    if asked.out:
        require_place(asked.out, "short.py")
        if asked.out.suffix != ".py":
            raise DriftlineError(f"--out {asked.out}: what comes out is Python, so name a file that ends in .py.")
    script = read_script(asked.path)
    options = ScriptOptions(seed=asked.seed)
    with Pool() as pool, Ticker(f"Reducing {script.name}") as progress:

        def tell(step: ScriptStep) -> None:
            progress.show(f"{step.lines} lines, {step.questions} asked")
            progress.say(
                f"{step.seconds:6.1f} s  {step.questions:4} asked  {step.lines} lines  ({step.what})", kept=False
            )

        reduced = reduce_script(script, pool, options, asked.target, seconds=asked.seconds, listener=tell)
    if asked.out:
        _write(reduced, asked.out)
    if asked.as_json:
        print_json({"schema": SCHEMA, "script": script.name, **reduced.to_json()})
    else:
        _show(script.name, reduced, asked.out)
    return 1


def _show(name: str, reduced: ScriptReduction, out: Path | None) -> None:
    ended = "nothing more can go" if reduced.complete else "the budget ended it, or an interruption"
    lines = f"{reduced.lines_before} -> {reduced.lines_after} lines"
    click.echo(f"{name} on {reduced.target}: {lines} ({ended})")
    click.echo(f"{reduced.questions} asked, {reduced.seconds:.0f} s")
    click.echo(f"fails: {reduced.reason}\n")
    click.echo(reduced.after.rstrip("\n"))
    if out:
        click.echo(f"\nWritten to {out}.")


def _write(reduced: ScriptReduction, out: Path) -> None:
    try:
        out.write_text(reduced.after)
    except OSError as error:
        raise DriftlineError(f"--out {out} cannot be written: {error.strerror}. Name another file.") from error
