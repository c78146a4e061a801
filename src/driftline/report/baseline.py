"""Compare results with a baseline: the JSON output of an earlier check or hunt. Failures that the baseline has too are
known.

A check's failure is known if the same bug occurred on the same target. Results without a bug (rejected, inconclusive)
are known if the target had the same verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftline.checking.checker import TargetResult
from driftline.checking.result import CheckResult
from driftline.core.errors import DriftlineError
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.text import parse_json
from driftline.core.verdict import Judgement

MAKE_ONE = "Make a baseline with --json, as in driftline check PROGRAM --json > baseline.json."


@dataclass(frozen=True)
class Baseline:
    """The results of an earlier run: verdict and bug of each target, and the ids of all bugs."""

    file: Path
    rows: Mapping[str, tuple[str, str | None]]
    bugs: frozenset[str]
    program: tuple[str, str] | None = None  # name and digest; a hunt has none

    def require_program(self, program: Program) -> None:
        """Raise if the baseline was made of another program. A program with the same name or the same content is
        accepted.
        """
        if self.program and self.program[0] != program.name and self.program[1] != program.digest:
            raise DriftlineError(
                f"--baseline {self.file}: it was made of another program, {self.program[0]}, not of {program.name}."
                f" {MAKE_ONE}"
            )

    def knows(self, row: TargetResult, bug_id: str | None) -> bool:
        """True if the target of `row` had the same verdict and the same bug in the baseline."""
        return self.rows.get(str(row.target)) == (str(row.verdict.judgement), bug_id)

    def hunt_json(self, bugs: Iterable[str]) -> dict[str, Any]:
        """Return the bugs of a hunt that are known, new, or not seen again, as JSON. Hunts test different programs, so
        a bug that was not seen again is not necessarily fixed.
        """
        seen = set(bugs)
        known, new, unseen = sorted(seen & self.bugs), sorted(seen - self.bugs), sorted(self.bugs - seen)
        return {"file": str(self.file), "known": known, "new": new, "not_seen": unseen}

    def hunt_line(self, bugs: Iterable[str]) -> str:
        """Summarise in one sentence how many bugs of a hunt are new, known or not seen again."""
        told = self.hunt_json(bugs)
        new = f" ({', '.join(told['new'])})" if told["new"] else ""
        return (
            f"Against {self.file}: {len(told['new'])} new{new}, {len(told['known'])} known,"
            f" {len(told['not_seen'])} not seen again."
        )


@dataclass(frozen=True)
class Compared:
    """A check compared with its baseline: targets whose failures are known, targets with new failures, and fixed
    targets.
    """

    baseline: Baseline
    known: tuple[Target, ...]
    new: tuple[Target, ...]
    fixed: tuple[str, ...]  # targets that had a bug before and pass now

    def to_json(self) -> dict[str, Any]:
        return {
            "file": str(self.baseline.file),
            "known": [str(target) for target in self.known],
            "new": [str(target) for target in self.new],
            "fixed": list(self.fixed),
        }

    def __str__(self) -> str:
        parts = [f"{len(self.new)} new", f"{len(self.known)} known"]
        told = f"Against {self.baseline.file}: {', '.join(parts)}"
        return f"{told}; fixed: {', '.join(self.fixed)}." if self.fixed else f"{told}."


def compare_check(baseline: Baseline, result: CheckResult, counted: Iterable[Judgement]) -> Compared:
    """Sort the results of a check into known, new and fixed. `counted`: the judgements that count as failures."""
    counting = tuple(counted)
    known: list[Target] = []
    new: list[Target] = []
    fixed: list[str] = []
    for row in result.results:
        bug = result.bugs.get(row.target)
        if row.verdict.judgement in counting or bug is not None:
            (known if baseline.knows(row, bug.id if bug else None) else new).append(row.target)
        elif _passes(row) and baseline.rows.get(str(row.target), ("", None))[1]:
            fixed.append(str(row.target))
    return Compared(baseline, tuple(known), tuple(new), tuple(fixed))


def _passes(row: TargetResult) -> bool:
    """True if the target passes without an accepted deviation: a failure that was accepted since is not fixed."""
    return row.verdict.judgement is Judgement.PASS and not row.verdict.evidence.accepted


def read_baseline(path: Path) -> Baseline:
    """Read the JSON output of an earlier check or hunt. Raise `DriftlineError` if the file is anything else."""
    try:
        value = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DriftlineError(f"--baseline {path}: it cannot be read ({error.strerror}). {MAKE_ONE}") from error
    except ValueError as error:
        raise DriftlineError(
            f"--baseline {path}: it is not JSON ({error}). Give the output of an earlier driftline check --json."
        ) from error
    try:
        rows = {str(row["target"]): (str(row["verdict"]), row.get("bug")) for row in value.get("results", ())}
        made_of = value.get("program")
        program = (str(made_of["name"]), str(made_of["digest"])) if made_of else None
        return Baseline(path, rows, frozenset(str(bug["id"]) for bug in value["bugs"]), program)
    except (AttributeError, KeyError, TypeError) as error:
        raise DriftlineError(
            f"--baseline {path}: it is JSON, but not the output of driftline check --json or driftline hunt --json."
        ) from error
