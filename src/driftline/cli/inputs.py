"""`driftline inputs`: inputs that a solver finds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.branching import BranchingCommand
from driftline.cli.common import (
    Activity,
    json_option,
    note,
    parse_budget,
    plugin_option,
    print_json,
    seed_option,
    sizes_options,
    trust_option,
)
from driftline.cli.completing import complete_program
from driftline.cli.filled import filled
from driftline.core.errors import DriftlineError
from driftline.core.output_place import require_place

if TYPE_CHECKING:
    from driftline.campaign.check.solving import Solved


@dataclass(frozen=True)
class _InputsOptions:
    """The options of `driftline inputs` that say what to solve."""

    goals: str
    dtype: str | None
    node: str
    budget: str
    dims: tuple[str, ...]
    shapes: tuple[str, ...]
    seed: int


@click.command(cls=BranchingCommand)
@click.argument("program", shell_complete=complete_program)
@click.option(
    "--goal",
    "goals",
    metavar="G1,G2",
    default="nan,inf,overflow,error:1e-2",
    show_default=True,
    help="What to reach: nan, inf, overflow, underflow, error:T (relative error against float64 above T), diverge (two"
    " legal lowerings differ), or diverge:A/B for two of them.",
)
@click.option("--dtype", metavar="DTYPE", help="Run a torch program in float64, float32, float16 or bfloat16.")
@click.option("--node", metavar="NAME", default="", help="Look at this node alone, by its name in the table.")
@click.option("--budget", metavar="TIME", default="30s", show_default=True, help="Time for all of it: 90s, 10m.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE.npz",
    help="Write the inputs that reach a goal; further ones go to FILE-2.npz and so on. Also: FILE.safetensors.",
)
@sizes_options
@seed_option
@plugin_option
@trust_option
@json_option
@filled(_InputsOptions)
def inputs(program: str, asked: _InputsOptions, out: Path | None, plugins: tuple[str, ...], as_json: bool) -> int:
    """Find inputs on which PROGRAM becomes NaN, overflows or loses its digits, or prove that there are none.

    PROGRAM is file.py:name, model.pt2, model:NAME or model.onnx, as for `driftline check`. Around each operator that
    can go wrong a slice of the program is cut out and solved; what is found there is carried back to the program's
    inputs, and the program is run on them.

    \b
    The answers:
      witness      the program, run on these inputs, reaches the goal
      slice only   the operator can be driven there, but no inputs of the program were found that do it
      impossible   proved: no finite values at the ends of the slice can do it
      unknown      neither was found in time

    \b
    Examples:
      driftline inputs net.py:make --goal nan,inf --out bad.npz
      driftline check net.py:make --inputs bad.npz
      driftline inputs net.py:make --dtype f16 --goal diverge
      driftline inputs model.onnx --node /norm/Div --budget 2m

    Lowerings for diverge: plain, fma, reassociate, reciprocal, rsqrt, exp-quotient, one-pass, wide, rounded-constant
    (docs/how-to/find-unstable-inputs.md).

    `driftline inputs convert` reads and writes the files of KLEE and FPGen.

    Exit codes: 0 nothing was found, 1 a witness of the program was found; others as everywhere.
    """
    from driftline.campaign.check.solving import check_request, write_inputs
    from driftline.core.plugins import load_plugins

    load_plugins(plugins)
    seconds = parse_budget(asked.budget)
    check_request(asked.goals, asked.dtype)
    if out is not None:
        _require_file(out)
    solved = _solve(program, asked, seconds, plugins)
    written = write_inputs(out, solved.inputs) if out is not None else []
    if as_json:
        from driftline.report.results import SCHEMA

        print_json({"schema": SCHEMA, **solved.to_json(), "files": [str(path) for path in written]})
    else:
        from driftline.report.screen import console
        from driftline.report.solved import show_solved

        show_solved(console(), solved)
    if written:
        note(f"Written: {', '.join(map(str, written))}.")
        if not asked.dtype:
            note(f"Check them with: driftline check {program} --inputs {written[0]}")
    elif out is None and solved.inputs and not as_json:
        note(f"Keep these inputs with --out bad.npz; `driftline check {program} --inputs bad.npz` then runs them.")
    elif out is not None:
        note(f"Nothing reaches the program's inputs: {out} was not written.")
    return 1 if solved.inputs else 0


def _solve(program: str, asked: _InputsOptions, seconds: float, plugins: tuple[str, ...]) -> Solved:
    from driftline.campaign.check.session import maker_of
    from driftline.campaign.check.solving import solve_inputs
    from driftline.checking.open import open_program
    from driftline.core.case import CheckOptions
    from driftline.events import says
    from driftline.execute.pool import Pool
    from driftline.inputs.sizes import Sizes

    sizes = Sizes.parse(asked.dims, asked.shapes)
    options = CheckOptions(seed=asked.seed, plugins=tuple(str(Path(p).resolve()) for p in plugins))
    with Pool() as pool, Activity(f"Solving {program}", seconds) as progress:
        opened = open_program(program, pool, options, sizes)
        maker = maker_of(opened, options, sizes)
        return solve_inputs(pool, opened, maker, options, goals=asked.goals, budget=seconds, dtype=asked.dtype,
                            node=asked.node, say=says(progress, "solving"))  # fmt: skip


def _require_file(path: Path) -> None:
    """Refuse early what cannot be written."""
    if path.suffix not in (".npz", ".safetensors"):
        raise DriftlineError(f"--out {path}: inputs are written as .npz or .safetensors; end the name so.")
    require_place(path, "bad.npz")


@inputs.branch
@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--spec",
    "specs",
    metavar="NAME:DTYPE[SHAPE]",
    multiple=True,
    help="What the bytes or numbers of SOURCE are, as in input:float32[3]; may be repeated.",
)
@json_option
def convert(source: Path, out: Path, specs: tuple[str, ...], as_json: bool) -> int:
    """Convert a file of inputs: SOURCE to OUT, each of the kind that its name says.

    \b
      .npz, .safetensors   named tensors, as `driftline check --inputs` takes them
      .ktest               KLEE test cases: named bytes, so say what they are with --spec
      NAME-input           FPGen inputs: x86 __float128 numbers, also .float128
      .csv                 tables: Driftline's own, with the bits beside each number, and `testfile,values` tables

    \b
      driftline inputs convert test000001.ktest bad.npz --spec input:float32[3]
      driftline inputs convert test000001-input bad.npz --spec x:float32[2] --spec y:float32[2]
      driftline inputs convert tests.csv bad.npz --spec x:float32[4]
      driftline inputs convert bad.npz test000002.ktest

    Several inputs of a table become OUT, OUT-2 and so on.
    """
    from driftline.inputs.foreign.convert import read_samples, write_samples_as
    from driftline.inputs.foreign.specs import parse_specs

    require_place(out, "bad.npz", option="")
    samples = read_samples(source, parse_specs(specs))
    written = write_samples_as(out, samples)
    if as_json:
        held = [{name: f"{array.dtype}{list(array.shape)}" for name, array in arrays.items()} for arrays in samples]
        print_json({"schema": 1, "files": [str(path) for path in written], "inputs": held})
    else:
        names = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in samples[0].items())
        click.echo(f"{', '.join(map(str, written))}: {names}")
    return 0
