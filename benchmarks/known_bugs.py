"""Does Driftline see the bugs we know? Every check of `examples/bugs/catalogue.json`, through the real pipeline.

    python benchmarks/known_bugs.py
    python benchmarks/known_bugs.py --only 'onnxruntime_*' --targets onnxruntime,onnxruntime@1.26.0 --json

A check says that a target fails in a certain way, or passes (the release with the fix, or the optimisation switched
off). Checks whose compiler, release or device is not on this machine are skipped and listed. Exits 1 when a check went
otherwise than expected.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from driftline.backends import resolve
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.execute.environments import find_environment
from driftline.execute.pool import Pool

BUGS = Path(__file__).resolve().parents[1] / "examples" / "bugs"


@dataclass(frozen=True)
class Row:
    """One check: what the catalogue says, what happened."""

    case: str
    target: str
    expected: str
    got: str
    kind: str
    seconds: float
    reason: str

    @property
    def skipped(self) -> bool:
        return self.got == "skipped"

    @property
    def as_expected(self) -> bool:
        return self.expected == (f"{self.got} {self.kind}".strip())


def main() -> int:
    arguments = _arguments()
    wanted = set(arguments.targets.split(",")) if arguments.targets else None
    rows: list[Row] = []
    with Pool() as pool:
        checker = Checker(pool, jobs=1)
        for entry in json.loads((BUGS / "catalogue.json").read_text()):
            if not fnmatch.fnmatch(Path(entry["file"]).stem, arguments.only):
                continue
            checks = [c for c in entry["checks"] if wanted is None or c["target"] in wanted]
            for row in run_entry(entry["file"], checks, pool, checker):
                rows.append(row)
                print(_line(row), file=sys.stderr if arguments.json else sys.stdout, flush=True)
    judged = [row for row in rows if not row.skipped]
    right = sum(row.as_expected for row in judged)
    if arguments.json:
        checks = [{**asdict(row), "as_expected": row.as_expected} for row in judged]
        skipped = [{"case": row.case, "target": row.target, "reason": row.reason} for row in rows if row.skipped]
        print(json.dumps({"checks": checks, "skipped": skipped, "as_expected": right, "total": len(judged)}, indent=1))
    else:
        if len(judged) < len(rows):
            print(f"{len(rows) - len(judged)} skipped: not on this machine")
        print(f"{right} of {len(judged)} as expected")
    return 0 if right == len(judged) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="GLOB", default="*", help="cases, by file name without .py")
    parser.add_argument("--targets", metavar="LIST", help="only these targets, as the catalogue writes them")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout, progress on stderr")
    return parser.parse_args()


def run_entry(file: str, checks: list[dict[str, Any]], pool: Pool, checker: Checker) -> Iterator[Row]:
    """Check one program on all its targets, one after the other so that the seconds mean something."""
    name = Path(file).stem
    runnable: list[tuple[str, Target]] = []
    for check in checks:
        expected = " ".join(filter(None, (check["expect"], check.get("kind", ""))))
        target = Target.parse(check["target"])
        missing = why_missing(target)
        if missing:
            yield Row(name, check["target"], expected, "skipped", "", 0.0, missing)
        else:
            runnable.append((expected, target))
    if not runnable:
        return
    options = CheckOptions()
    opened = open_program(f"{BUGS / file}:program", pool, options)
    for expected, target in runnable:
        case = Case(opened.program, (Inputs(opened.example, "example"),), (target,), options)
        started = time.monotonic()
        outcome = checker.check(case)
        seconds = time.monotonic() - started
        if outcome.skipped:
            (skip,) = outcome.skipped
            yield Row(name, str(target), expected, "skipped", "", seconds, skip.reason)
            continue
        (result,) = outcome.results
        failed, runs = result.failed_runs
        got = f"flaky {failed}/{runs}" if result.flaky else str(result.verdict.judgement)
        reason = result.internal_error or result.verdict.reason
        yield Row(name, str(target), expected, got, str(result.verdict.kind or ""), seconds, reason)


def why_missing(target: Target) -> str:
    """Why this target cannot run on this machine; empty when it can."""
    try:
        backend = resolve(target)
    except DriftlineError as error:
        return str(error)
    if target.version:
        if find_environment(backend.packages, target.version) is None:
            return f"no environment: driftline env add {backend.packages[0]}=={target.version}"
        return ""
    present = backend.installed()
    if not present.available:
        return present.reason
    if target.device != "cpu" and not Path("/dev/nvidia0").exists():
        return f"no {target.device} device here"
    return ""


def _line(row: Row) -> str:
    mark = "  skip" if row.skipped else "    ok" if row.as_expected else "DIFFERS"
    got = row.got if row.skipped else f"{row.got} {row.kind}".strip()
    text = f"{mark:<7} {row.case:<34} {row.target:<40} {row.expected:<20} {got:<20} {row.seconds:6.1f} s"
    return text if row.as_expected else f"{text}  {row.reason[:200]}"


if __name__ == "__main__":
    sys.exit(main())
