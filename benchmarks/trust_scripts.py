"""May a maintainer trust the scripts of a store's bugs? Exports every bug as a script and runs it as a stranger would.

    python benchmarks/trust_scripts.py STORE
    python benchmarks/trust_scripts.py STORE --only 'openvino-*' --keep FOLDER

Each script is run in a fresh process, and must show the bug of its title; then once more with the compiler's results
replaced by correctly rounded ones (computed in float64 and rounded once), and must then end with 0. Errors, crashes and
wrong shapes have no rounded results: the unoptimised ones stand in. Bugs about cost are left out: their scripts show
times. Exits 1 when a script that was called valid fails one of the two.
"""

from __future__ import annotations

import argparse
import fnmatch
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from _tally import Tally

from driftline.campaign.explain.exporting import subject_of
from driftline.campaign.explain.failing import find_failing
from driftline.checking.checker import Checker
from driftline.core.errors import DriftlineError
from driftline.core.verdict import COSTS
from driftline.execute.pool import Pool
from driftline.report.export.clean_run import run_clean
from driftline.report.export.same_error import another_error
from driftline.report.export.script import Exported, export_script
from driftline.store import Store


@dataclass(frozen=True)
class ScriptRow:
    """What became of the script of one bug."""

    bug: str
    valid: bool  # as the export says
    shows: bool
    passes: bool  # with right results
    blob: bool
    lines: int
    told: str

    def __str__(self) -> str:
        answers = "  ".join(
            f"{name}: {'yes' if met else 'NO '}"
            for name, met in (("valid", self.valid), ("shows", self.shows), ("passes when right", self.passes))
        )
        return f"{self.bug:28} {answers}  {self.lines:3} lines{'  BLOB' if self.blob else ''}  {self.told}"


def main() -> int:
    counted = tally(arguments())
    print(counted.told)
    return int(not counted.sound)


def tally(arguments: argparse.Namespace) -> Tally:
    """Export the scripts of a store's bugs, print what became of each, and count those that keep their word."""
    rows = []
    with Store.open(arguments.store) as store, Pool() as pool:
        checker = Checker(pool)
        for bug in store.bugs():
            if bug.fingerprint.kind in COSTS or not fnmatch.fnmatch(bug.id, arguments.only):
                continue
            rows.append(_row(store, checker, bug.id, arguments.keep))
            print(rows[-1], flush=True)
    what = "scripts that show their bug, and pass when the compiler is right"
    if not rows:
        return Tally(what, 0, 0, "The store has no bug whose script could be run.", False)
    told = (
        f"{len(rows)} bugs: {sum(row.shows for row in rows)} scripts show the bug of their title,"
        f" {sum(row.passes for row in rows)} pass when the implementation is right,"
        f" {sum(row.blob for row in rows)} have packed numbers; median {statistics.median(r.lines for r in rows):.0f}"
        " lines."
    )
    broken = any(row.valid and not (row.shows and row.passes) for row in rows)
    return Tally(what, len(rows), sum(row.shows and row.passes for row in rows), told, not broken)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="bugs by name, as in 'openvino-*'")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write the scripts there")
    return parser.parse_args(given)


def _row(store: Store, checker: Checker, name: str, folder: Path | None) -> ScriptRow:
    try:
        script = export_script(subject_of(store, checker, find_failing(name, store, checker)))
    except DriftlineError as error:
        return ScriptRow(name, False, False, False, False, 0, str(error))
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(script.text)
    shows, passes = _tried(script)
    blob = "base64" in script.text
    return ScriptRow(name, script.valid, shows, passes, blob, script.lines, "" if script.valid else script.reason)


def _tried(script: Exported) -> tuple[bool, bool]:
    """Whether a script shows the bug of its title, and whether it passes with right results."""
    if not script.control or script.subject is None:
        return False, False
    ran = run_clean(script.text, python=script.python)
    right = run_clean(script.control, python=script.python, files=script.files)
    return ran.shows_bug and not another_error(script.subject, ran.errors), right.status == 0


if __name__ == "__main__":
    sys.exit(main())
