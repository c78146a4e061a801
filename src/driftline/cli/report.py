"""`driftline report`."""

from __future__ import annotations

from pathlib import Path

import click

from driftline.cli.cause_options import causes_option, library_of
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
@causes_option
@click.pass_context
def report(
    ctx: click.Context,
    store: Path,
    out: Path | None,
    format_: str | None,
    compare: tuple[Path, Path] | None,
    folders: tuple[Path, ...],
) -> int:
    """Write what was found as a page, a table or a file for other tools.

    \b
      driftline report --out report.html                 one self-contained page
      driftline report                                   a summary in Markdown on stdout
      driftline report --format junit --out bugs.xml     for continuous integration
      driftline report --compare old new --out diff.md   between two stores

    Of more than 400 bugs the page has the worst in full; the others have pages in a folder beside it (report-bugs).

    Exit code 0; with --compare, 1 if the second store has a bug that the first has not (bugs marked as known or fixed,
    or accepted by a cause of yours, do not count).
    """
    from driftline.core.output_place import require_place
    from driftline.core.streams import write_exactly
    from driftline.report.formats import choose_format, render, write
    from driftline.report.gather import compare as compare_stores
    from driftline.report.gather import gather
    from driftline.report.pages import write_paged
    from driftline.report.view import ComparisonView
    from driftline.store import Store

    chosen = choose_format(format_, out)
    if out is not None:
        require_place(out)
    if compare and ctx.get_parameter_source("store") is click.core.ParameterSource.COMMANDLINE:
        raise DriftlineError("--compare names two stores itself; leave --store out.")
    library = library_of(folders)
    if out is not None and not compare:
        with Store.open(store) as kept:
            written = write_paged(kept, out, chosen, library)
        beside = f", and pages of single bugs to {out.with_name(written.pages)}" if written.pages else ""
        note(f"{written.verdict} Written to {out}{beside}.")
        return 0
    view = compare_stores(*compare, library) if compare else gather(store, library)
    text = render(view, chosen)
    if out is None:
        write_exactly(text)
    else:
        write(out, text)
        note(f"{view.verdict} Written to {out}.")
    return 1 if isinstance(view, ComparisonView) and view.new else 0
