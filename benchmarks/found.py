"""The trophy room: every known cause as a script that needs nothing of Driftline, run in a clean process.

    python benchmarks/found.py                        run the scripts of docs/found, and say which show their bug
    python benchmarks/found.py --only 'openvino/*'
    python benchmarks/found.py --write-docs           write the pages; scripts of new witnesses are made first
    python benchmarks/found.py --write-docs --again   make all scripts anew
    python benchmarks/found.py --write-docs --keep    make none: after an edit of titles and the like

A script is made from the witness of a cause by the exporter behind `driftline export --as script`, which runs it: it
must end with 1 and name the bug, and with 0 when the right result stands in the place of the compiler's. The pages keep
the scripts, so that only what changed is made again. Exits 1 when a script does not show its bug.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from _found_pages import Entry, read_entries, write_index, write_page

from driftline.backends import resolve
from driftline.campaign.check.session import check_program
from driftline.campaign.explain.exporting import subject_of
from driftline.campaign.explain.failing import find_failing
from driftline.causes import Cause
from driftline.causes.library import builtin
from driftline.causes.sighting import machine_name
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.execute.pool import Pool
from driftline.report.export.clean_run import run_clean
from driftline.report.export.script import export_script
from driftline.store import Store

FOUND = Path(__file__).resolve().parents[1] / "docs" / "found"


@dataclass(frozen=True)
class Row:
    """A cause and what its script did."""

    id: str
    shows: bool | None  # None: not run here
    told: str


def main() -> int:
    arguments = _arguments()
    causes = [cause for cause in builtin() if fnmatch.fnmatch(cause.id, arguments.only)]
    kept = read_entries(FOUND)
    if arguments.write_docs and arguments.keep:
        _write_pages(causes, kept)
        return 0
    told = _write(causes, kept, again=arguments.again) if arguments.write_docs else _run(causes, kept)
    rows = list(told)
    shown, silent = (sum(row.shows is wanted for row in rows) for wanted in (True, False))
    print(f"{shown} scripts show their bug, {silent} do not, {len(rows) - shown - silent} were not run here.")
    return 1 if silent else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="*", metavar="PATTERN", help="causes by id, as in 'tvm/*'")
    parser.add_argument("--write-docs", action="store_true", help="make scripts and write docs/found")
    parser.add_argument("--again", action="store_true", help="with --write-docs: make scripts that are there already")
    parser.add_argument("--keep", action="store_true", help="with --write-docs: make no scripts")
    return parser.parse_args()


def _run(causes: Sequence[Cause], kept: dict[str, Entry]) -> Iterator[Row]:
    """The scripts as they stand in the pages, without Driftline."""
    for cause in causes:
        entry = kept.get(cause.id)
        missing = why_not_here(cause)
        if entry is None or not entry.script or missing:
            yield _printed(Row(cause.id, None, missing or "no script: run with --write-docs"))
            continue
        ran = run_clean(entry.script)
        yield _printed(Row(cause.id, ran.shows_bug, "" if ran.shows_bug else ran.ending))


def _write(causes: Sequence[Cause], kept: dict[str, Entry], *, again: bool) -> Iterator[Row]:
    """Make what is new, and write the pages; after each script, so that an interrupted run is not lost."""
    everything = list(builtin())
    with Pool() as pool, tempfile.TemporaryDirectory() as folder, Store.create(Path(folder) / "store") as store:
        checker = Checker(pool)
        for cause in causes:
            entry = kept.get(cause.id)
            digest = digest_of(cause)
            if entry and entry.digest == digest and entry.script and not again:
                yield Row(cause.id, True, "")
                continue
            missing = why_not_here(cause)
            made = Entry(cause.id, digest, "", missing) if missing else _made(cause, digest, checker, store, folder)
            kept[cause.id] = made
            write_page(FOUND, cause.compiler, everything, kept)
            yield _printed(Row(cause.id, None if missing else bool(made.script), made.problem))
    _write_pages(causes, kept)


def _write_pages(causes: Sequence[Cause], kept: dict[str, Entry]) -> None:
    everything = list(builtin())
    for compiler in dict.fromkeys(cause.compiler for cause in causes):
        write_page(FOUND, compiler, everything, kept)
    write_index(FOUND, everything)


def _made(cause: Cause, digest: str, checker: Checker, store: Store, folder: str) -> Entry:
    """The script of a cause, or why there is none."""
    path = Path(folder) / f"{cause.id.replace('/', '_').replace('-', '_')}.py"
    path.write_text(cause.witness.program)
    target, options = Target.parse(cause.witness.target), CheckOptions()
    try:
        opened = open_program(f"{path}:program", checker.pool, options)
        seen = check_program(checker, store, opened, targets=[target], options=options, keep_reduced=True)
        bug = next(iter(seen.bugs.values()), None)
        if bug is None:
            return Entry(cause.id, digest, "", f"{target}: {seen.results[0].verdict.reason}")
        failing = find_failing(bug.id, store, checker, target=target)
        exported = export_script(subject_of(store, checker, failing))
    except DriftlineError as error:
        return Entry(cause.id, digest, "", str(error))
    return Entry(cause.id, digest, exported.text if exported.valid else "", "" if exported.valid else exported.reason)


def why_not_here(cause: Cause) -> str:
    """Why the witness cannot run on this machine; empty when it can."""
    here = machine_name(platform.machine())
    if cause.machines and here not in cause.machines:
        return f"seen on {', '.join(cause.machines)}; this page was written on {here}"
    target = Target.parse(cause.witness.target)
    if cause.fixed:
        return f"fixed in {cause.fixed}"
    present = resolve(target).installed()
    return "" if present.available else present.reason


def digest_of(cause: Cause) -> str:
    """Of what a script is made from."""
    told = "\n".join((cause.witness.target, cause.witness.program))
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def _printed(row: Row) -> Row:
    state = {True: "shows", False: "SILENT", None: "not run"}[row.shows]
    print(f"{state:8} {row.id}  {row.told}".rstrip(), flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())
