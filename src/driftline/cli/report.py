"""`driftline report`."""

from __future__ import annotations

from pathlib import Path

import click

from driftline.cli.common import note, store_option
from driftline.core.errors import DriftlineError


@click.command()
@store_option
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="File to write; default: stdout.")
@click.option(
    "--format",
    "format_",
    metavar="html|md|csv|json|junit",
    help="Default: by the suffix of --out (.html, .md, .csv, .json, .xml), else md.",
)
@click.option(
    "--compare",
    nargs=2,
    type=click.Path(path_type=Path),
    metavar="STORE1 STORE2",
    help="What is new, no longer seen and still there in the second store.",
)
@click.pass_context
def report(
    ctx: click.Context, store: Path, out: Path | None, format_: str | None, compare: tuple[Path, Path] | None
) -> int:
    """Write what was found as a page, a table or a file for other tools.

    \b
      driftline report --out report.html                 one self-contained page
      driftline report                                   a summary in Markdown on stdout
      driftline report --format junit --out bugs.xml     for continuous integration
      driftline report --compare old new --out diff.md   between two stores

    Exit code 0; with --compare, 1 if the second store has a bug that the first has not (bugs marked as known or fixed
    do not count).
    """
    from driftline.report.formats import choose_format, render, require_place, write
    from driftline.report.gather import compare as compare_stores
    from driftline.report.gather import gather
    from driftline.report.view import Comparison

    chosen = choose_format(format_, out)
    if out is not None:
        require_place(out)
    if compare and ctx.get_parameter_source("store") is click.core.ParameterSource.COMMANDLINE:
        raise DriftlineError("--compare names two stores itself; leave --store out.")
    view = compare_stores(*compare) if compare else gather(store)
    text = render(view, chosen)
    if out is None:
        click.echo(text, nl=False)
    else:
        write(out, text)
        note(f"{view.verdict} Written to {out}.")
    return 1 if isinstance(view, Comparison) and view.new else 0
