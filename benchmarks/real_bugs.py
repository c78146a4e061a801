"""Which real bugs does Driftline see when it is given the script, and does it keep quiet about correct scripts?

    python benchmarks/real_bugs.py --out rows.jsonl               # the bugs that the installed torch has
    python benchmarks/real_bugs.py --correct --out fine.jsonl     # the correct scripts
    python benchmarks/real_bugs.py --only 'views_*'
    python benchmarks/real_bugs.py --release 2.11.0 --out old.jsonl   # bugs that this release has, in its environment
    python benchmarks/real_bugs.py --read rows.jsonl              # run nothing; count the rows of a file

The scripts in `benchmarks/real_bugs/` were written by somebody who had read neither the generators nor the oracle, and
were frozen before the first run (see README.md there). A run that was stopped goes on with the same `--out`. A script
of a bug should fail, a correct one should pass. The script prints a row for each, then the counts by class.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _lines import append_line, read_lines

from driftline.core.errors import DriftlineError, InternalError
from driftline.core.target import Target
from driftline.execute.pool import Pool
from driftline.scenarios.check import ScriptTrials
from driftline.scenarios.runs import ScriptOptions
from driftline.scenarios.script import read_script
from driftline.scenarios.target import AS_IT_STANDS

FOLDER = Path(__file__).with_name("real_bugs")


@dataclass(frozen=True)
class Script:
    path: Path
    group: str  # class of the bug, by which rows are counted


def main() -> int:
    given = arguments()
    if given.read:
        return summary(read_lines(given.read))
    done = {row["script"] for row in read_lines(given.out)} if given.out else set()
    scripts = [one for one in chosen(given) if one.path.stem not in done]
    rows = []
    target = Target.parse(f"{given.target or AS_IT_STANDS}{f'@{given.release}' if given.release else ''}")
    with Pool() as pool:
        for place, script in enumerate(scripts, start=1):
            row = judged(script, pool, target)
            rows.append(row)
            if given.out:
                append_line(given.out, row)
            print(f"[{place}/{len(scripts)}] {told(row)}", flush=True)
    return summary(read_lines(given.out) if given.out else rows)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--correct", action="store_true", help="the correct scripts instead of those of bugs")
    parser.add_argument(
        "--release", help="a release of torch with an environment, and the bugs seen there, not on 2.13"
    )
    parser.add_argument("--only", metavar="GLOB", default="*", help="scripts by name")
    parser.add_argument("--target", help="in place of the script's own backend")
    parser.add_argument("--out", type=Path, metavar="FILE", help="rows as JSON lines; scripts in the file are skipped")
    parser.add_argument("--read", type=Path, metavar="FILE", help="run nothing; count the rows of a file")
    return parser.parse_args()


def chosen(given: argparse.Namespace) -> Iterator[Script]:
    """Yield the scripts that were asked for."""
    if given.correct:
        found = [Script(path, path.stem.partition("_")[0]) for path in sorted((FOLDER / "correct").glob("*.py"))]
    else:
        cases = tomllib.loads((FOLDER / "cases.toml").read_text())["case"]
        shown = [case for case in cases if _shows(case, given.release)]
        found = [Script(FOLDER / "scripts" / f"{case['name']}.py", case["class"]) for case in shown]
    yield from (one for one in found if fnmatch.fnmatch(one.path.stem, given.only))


def _shows(case: Mapping[str, Any], release: str | None) -> bool:
    """True for a bug that torch 2.13 has; with a release, for one that was seen there and is gone since."""
    if release is None:
        return bool(case["shows_on_2_13"])
    return not case["shows_on_2_13"] and release in case["seen_on"]


def judged(script: Script, pool: Pool, target: Target) -> dict[str, Any]:
    """Judge one script, and return its row."""
    began = time.monotonic()
    row: dict[str, Any] = {"script": script.path.stem, "class": script.group, "differences": []}
    try:
        result = ScriptTrials(read_script(script.path), pool, ScriptOptions()).judge(target)
        row |= {"verdict": str(result.judgement), "reason": result.reason}
        row["differences"] = [one.id for one in result.differences]
    except DriftlineError as error:
        row |= {"verdict": "refused", "reason": str(error)}
    except InternalError as error:
        row |= {"verdict": "internal error", "reason": str(error)}
    return row | {"seconds": round(time.monotonic() - began, 1)}


def told(row: Mapping[str, Any]) -> str:
    return f"{row['script']}: {row['verdict']} {row['seconds']} s {row['reason'][:150]}"


def summary(rows: list[dict[str, Any]]) -> int:
    """Print the counts by class and verdict. Exits 1 after an internal error."""
    verdicts = sorted({row["verdict"] for row in rows})
    groups = sorted({row["class"] for row in rows})
    print("| class | " + " | ".join(verdicts) + " |")
    print("|---|" + "---|" * len(verdicts))
    for group in (*groups, "all"):
        counts = Counter(row["verdict"] for row in rows if group in (row["class"], "all"))
        print(f"| {group} | " + " | ".join(str(counts[name]) for name in verdicts) + " |")
    seconds = sorted(row["seconds"] for row in rows)
    print(f"{len(rows)} scripts, median {seconds[len(seconds) // 2] if seconds else 0} s.")
    return int(any(row["verdict"] == "internal error" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
