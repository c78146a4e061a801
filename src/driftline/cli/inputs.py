"""`driftline inputs`: inputs that a solver finds."""

from __future__ import annotations

from pathlib import Path

import click

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
from driftline.core.errors import DriftlineError


@click.command()
@click.argument("program")
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
def inputs(
    program: str,
    goals: str,
    dtype: str | None,
    node: str,
    budget: str,
    out: Path | None,
    dims: tuple[str, ...],
    shapes: tuple[str, ...],
    seed: int,
    plugins: tuple[str, ...],
    as_json: bool,
) -> int:
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

    Exit codes: 0 nothing was found, 1 a witness of the program was found; others as everywhere.
    """
    from driftline.campaign.session import maker_of
    from driftline.campaign.solving import check_request, solve_inputs, write_inputs
    from driftline.checking.open import open_program
    from driftline.core.case import CheckOptions
    from driftline.core.plugins import load_plugins
    from driftline.execute.pool import Pool
    from driftline.inputs.sizes import Sizes

    load_plugins(plugins)
    seconds = parse_budget(budget)
    check_request(goals, dtype)
    sizes = Sizes.parse(dims, shapes)
    if out is not None:
        _require_file(out)
    options = CheckOptions(seed=seed, plugins=tuple(str(Path(p).resolve()) for p in plugins))
    with Pool() as pool, Activity(f"Solving {program}", seconds):
        opened = open_program(program, pool, options)
        maker = maker_of(opened, options, sizes)
        solved = solve_inputs(pool, opened, maker, options, goals=goals, budget=seconds, dtype=dtype, node=node)
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
        if not dtype:
            note(f"Check them with: driftline check {program} --inputs {written[0]}")
    elif out is not None:
        note(f"Nothing reaches the program's inputs: {out} was not written.")
    return 1 if solved.inputs else 0


def _require_file(path: Path) -> None:
    """Refuse early what cannot be written."""
    if path.suffix not in (".npz", ".safetensors"):
        raise DriftlineError(f"--out {path}: inputs are written as .npz or .safetensors; end the name so.")
    if not path.parent.is_dir():
        raise DriftlineError(f"--out {path}: the folder {path.parent} does not exist; make it first.")
    if path.is_dir():
        raise DriftlineError(f"--out {path}: it is a folder; name a file.")
