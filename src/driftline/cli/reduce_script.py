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
    from driftline.execute.pool import Pool
    from driftline.scenarios.runs import ScriptOptions
    from driftline.scenarios.script import UserScript

# The options of `reduce` that a script takes; --trust has done its work when this runs.
_TAKEN = ("subject", "target", "budget", "seed", "out", "as_json", "store", "trust", "plugins")


@dataclass(frozen=True)
class ScriptToReduce:
    """The reduction of a script as the command line describes it."""

    subject: str  # FILE.py, FILE.py:NAME, or the name of a bug
    store: Path  # of the bug
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
        return ScriptToReduce(given.subject, given.store, target, parse_budget(given.budget), given.seed, out, as_json)


def reduce_script_file(asked: ScriptToReduce) -> int:
    """Make a script shorter, print the result, and return the exit code."""
    from driftline.core.output_place import require_place
    from driftline.diagnose.reduce.scripts.reducer import reduce_script
    from driftline.execute.pool import Pool
    from driftline.report.results import SCHEMA
    from driftline.scenarios.target import require_script_target

    if asked.target:
        require_script_target(asked.target)
    if asked.out:
        require_place(asked.out, "short.py")
        if asked.out.suffix != ".py":
            raise DriftlineError(f"--out {asked.out}: what comes out is Python, so name a file that ends in .py.")
    with Pool() as pool, Ticker(f"Reducing {asked.subject}") as progress:
        script, options, target = _found(asked, pool)

        def tell(step: ScriptStep) -> None:
            progress.show(f"{step.lines} lines, {step.questions} asked")
            progress.say(
                f"{step.seconds:6.1f} s  {step.questions:4} asked  {step.lines} lines  ({step.what})", kept=False
            )

        reduced = reduce_script(script, pool, options, target, seconds=asked.seconds, listener=tell)
    if asked.out:
        _write(reduced, asked.out)
    if asked.as_json:
        print_json({"schema": SCHEMA, "script": script.name, **reduced.to_json()})
    else:
        _show(script.name, reduced, asked.out)
    return 1


def names_a_script_bug(subject: str, store: Path) -> bool:
    """True for the name of a bug in the store that a script shows."""
    from driftline.campaign.explain.failing import is_program
    from driftline.scenarios.keeping import is_script_bug
    from driftline.store import Store

    if is_program(subject) or not store.is_dir():
        return False
    with Store.open(store) as kept:
        try:
            return is_script_bug(kept, kept.bug(subject))
        except DriftlineError:  # the id of a case, or a name that the command itself refuses
            return False


def _found(asked: ScriptToReduce, pool: Pool) -> tuple[UserScript, ScriptOptions, Target | None]:
    """The script of a file or of a bug, how it is executed, and the target on which it must fail."""
    from driftline.scenarios.function import read_program
    from driftline.scenarios.keeping import options_of, script_of
    from driftline.scenarios.runs import ScriptOptions
    from driftline.scenarios.target import AS_IT_STANDS
    from driftline.store import Store

    if ".py" in asked.subject:
        return read_program(asked.subject), ScriptOptions(seed=asked.seed), asked.target
    with Store.open(asked.store) as kept:
        finding = kept.bug(asked.subject).findings[0]
        case = kept.load_case(finding.case_id)
        own = Target.parse(finding.target)
        target = asked.target or (None if own.backend == AS_IT_STANDS and not own.version else own)
        return script_of(case, pool), options_of(case), target


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
