"""Does Driftline see the bugs we know? Every example of a cause (`examples/bugs`), through the real pipeline.

    python benchmarks/known_bugs.py
    python benchmarks/known_bugs.py --only 'onnxruntime_*' --targets onnxruntime,onnxruntime@1.26.0 --json

The file of a cause says which example tells it, on which targets that fails (`fails_on`, in the way the cause says) and
on which it passes (`passes_on`: the release with the fix, or the optimisation switched off). Checks whose compiler,
release or device is not on this machine are skipped and listed. Exits 1 when a check went otherwise than expected.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import platform
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from driftline.backends import resolve
from driftline.causes import Cause, builtin
from driftline.causes.sighting import machine_name
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.execute.environments import find_environment
from driftline.execute.pool import Pool

BUGS = Path(__file__).resolve().parents[1] / "examples" / "bugs"


@dataclass(frozen=True)
class Check:
    """An example of a cause, on one target."""

    cause: Cause
    target: str
    fails: bool

    @property
    def case(self) -> str:
        return Path(self.cause.example).stem

    @property
    def expected(self) -> str:
        return " or ".join(f"fail {kind}" for kind in self.cause.kinds) if self.fails else "pass"


def catalogue() -> list[Check]:
    """Every check that the causes ask for, in the order of the examples."""
    told = sorted((cause for cause in builtin() if cause.example), key=lambda cause: cause.example)
    return [
        Check(cause, target, fails)
        for cause in told
        for fails, targets in ((True, cause.fails_on), (False, cause.passes_on))
        for target in targets
    ]


def table() -> str:
    """The tables of examples/README.md: what fails somewhere, and what is kept as a test that it stays fixed."""
    rows: dict[bool, list[str]] = {True: [], False: []}
    for cause in sorted((cause for cause in builtin() if cause.example), key=lambda cause: cause.example):
        told = f"| [{cause.example}](bugs/{cause.example}) | {cause.title} ([report]({cause.reported})) |"
        if cause.fails_on:
            fails, passes = (", ".join(f"`{one}`" for one in some) for some in (cause.fails_on, cause.passes_on))
            told += f" {fails} | {passes} |"
        rows[bool(cause.fails_on)].append(told)
    shown = ["| file | what goes wrong | shows on | right on |", "|---|---|---|---|", *rows[True], ""]
    shown += ["Fixed before the releases that are installed here, and kept as tests that they stay fixed:", ""]
    return "\n".join([*shown, "| file | what went wrong |", "|---|---|", *rows[False]])


@dataclass(frozen=True)
class Row:
    """One check: what the cause says, what happened."""

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
        return f"{self.got} {self.kind}".strip() in self.expected.split(" or ")


def main() -> int:
    arguments = _arguments()
    if arguments.table:
        print(table())
        return 0
    wanted = set(arguments.targets.split(",")) if arguments.targets else None
    rows: list[Row] = []
    with Pool() as pool:
        checker = Checker(pool, jobs=1)
        for check in catalogue():
            if not fnmatch.fnmatch(check.case, arguments.only) or (wanted and check.target not in wanted):
                continue
            rows.append(run_check(check, pool, checker))
            print(_line(rows[-1]), file=sys.stderr if arguments.json else sys.stdout, flush=True)
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
    parser.add_argument("--targets", metavar="LIST", help="only these targets, as the causes write them")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout, progress on stderr")
    parser.add_argument("--table", action="store_true", help="print the tables of examples/README.md and run nothing")
    return parser.parse_args()


def run_check(check: Check, pool: Pool, checker: Checker) -> Row:
    """Check an example on one target."""
    target = Target.parse(check.target)
    here = machine_name(platform.machine())
    elsewhere = check.fails and check.cause.machines and here not in check.cause.machines
    missing = f"it fails on {', '.join(check.cause.machines)}" if elsewhere else why_missing(target)
    if missing:
        return Row(check.case, check.target, check.expected, "skipped", "", 0.0, missing)
    options = CheckOptions()
    opened = open_program(f"{BUGS / check.cause.example}:program", pool, options)
    case = Case(opened.program, (Inputs(opened.example, "example"),), (target,), options)
    started = time.monotonic()
    outcome = checker.check(case)
    seconds = time.monotonic() - started
    if outcome.skipped:
        (skip,) = outcome.skipped
        return Row(check.case, check.target, check.expected, "skipped", "", seconds, skip.reason)
    (result,) = outcome.results
    failed, runs = result.failed_runs
    got = f"flaky {failed}/{runs}" if result.flaky else str(result.verdict.judgement)
    reason = result.internal_error or result.verdict.reason
    return Row(check.case, check.target, check.expected, got, str(result.verdict.kind or ""), seconds, reason)


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
