"""The summary of a run: `summary.csv` for tools, `summary.md` for people."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from driftline.checking.checker import Skipped
from driftline.core.private import write_private
from driftline.core.quoting import cell, markdown, spreadsheet
from driftline.instabilities.frameworks import USUAL
from driftline.instabilities.records import ModelRecord, RuntimeRecord
from driftline.report.words import plural
from driftline.store import Bug

COLUMNS = (
    "model", "expression", "framework", "target", "version", "inputs", "elements", "nan", "inf", "overflow",
    "underflow", "errors", "rejected", "disagreements", "worst_error", "verdict", "reason", "bugs",
)  # fmt: skip
COUNTED = ("nan", "inf", "overflow", "underflow", "disagreements")
_WORST = 20  # models in the table for people


def summary_rows(records: Iterable[ModelRecord]) -> list[list[object]]:
    """Return one row for each model on each framework, in the order of `COLUMNS`."""
    return [_row(record, one) for record in records for one in record.runtimes]


def _row(record: ModelRecord, one: RuntimeRecord) -> list[object]:
    verdict = one.verdict
    reason = next((row.reason for row in one.rows if row.verdict == verdict), "")
    return [
        record.model, record.expression, one.framework, one.target, one.version, len(one.rows), one.total("elements"),
        one.total("nan"), one.total("inf"), one.total("overflow"), one.total("underflow"), one.errors, one.rejected,
        one.total("disagreements"), f"{one.worst_error:.3g}", verdict, reason, " ".join(one.bugs),
    ]  # fmt: skip


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([spreadsheet(value) for value in row] for row in rows)
    return text.getvalue()


def write_summary(
    folder: Path, records: Sequence[ModelRecord], skipped: Sequence[Skipped], bugs: Iterable[Bug]
) -> tuple[Path, Path]:
    """Write both summary files and return their paths."""
    table, page = folder / "summary.csv", folder / "summary.md"
    write_private(table, [csv_text(COLUMNS, summary_rows(records)).encode()])
    write_private(page, [summary_page(records, skipped, bugs).encode()])
    return table, page


def summary_page(records: Sequence[ModelRecord], skipped: Sequence[Skipped], bugs: Iterable[Bug]) -> str:
    frameworks = frameworks_of(records)
    inputs = sum(len(record.inputs) for record in records)
    lines = [
        "# Numerical instabilities",
        "",
        f"{plural(len(records), 'model')}, {plural(inputs, 'input')}, {plural(len(frameworks), 'framework')}. Counts"
        " are elements of results, except errors and rejections, which are runs. *Disagreement*: NaN or infinite where"
        " float64 is not, or far from it. What is wrong is decided by the oracle, and stands below as findings.",
        "",
        *framework_table(records),
        "",
        *_skipped_lines(skipped),
        *_problem_lines(records),
        *_worst_lines(records),
        *_conflict_lines(records),
        *_finding_lines(bugs),
    ]
    return "\n".join(lines).rstrip() + "\n"


def frameworks_of(records: Iterable[ModelRecord]) -> list[str]:
    """Return the names of all frameworks: the usual ones first, then the others sorted by name."""
    found = {one.framework for record in records for one in record.runtimes}
    return [*(name for name in USUAL if name in found), *sorted(found - set(USUAL))]


def framework_table(records: Sequence[ModelRecord]) -> list[str]:
    """Return a Markdown table of the counts of each framework."""
    rows = []
    for name in frameworks_of(records):
        own = [one for record in records for one in record.runtimes if one.framework == name]
        counted = [sum(one.total(column) for one in own) for column in COUNTED]
        wrong = sum(bool(one.bugs) for one in own)
        rows.append([
            f"{name} ({own[0].target} {own[0].version})", len(own), *counted, sum(one.errors for one in own),
            sum(one.rejected for one in own), wrong,
        ])  # fmt: skip
    return table(
        ("framework", "models", "NaN", "Inf", "overflow", "underflow", "disagreement", "errors", "rejected", "wrong"),
        rows,
    )


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    body = [f"| {' | '.join(cell(f'{v:,}' if isinstance(v, int) else str(v)) for v in row)} |" for row in rows]
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *body]


def _skipped_lines(skipped: Sequence[Skipped]) -> list[str]:
    if not skipped:
        return []
    return ["## Skipped", "", *(f"- {markdown(str(one.target))}: {markdown(one.reason)}" for one in skipped), ""]


def _problem_lines(records: Iterable[ModelRecord]) -> list[str]:
    found = [record for record in records if record.problem]
    if not found:
        return []
    return ["## Not measured", "", *(f"- {markdown(one.model)}: {markdown(one.problem)}" for one in found), ""]


def instability(record: ModelRecord) -> int:
    """Return the number of NaN or infinite elements plus the number of errors, over all frameworks. Models are ranked
    by it."""
    return sum(one.total("nan") + one.total("inf") + one.errors for one in record.runtimes)


def _worst_lines(records: Sequence[ModelRecord]) -> list[str]:
    worst = sorted((one for one in records if instability(one)), key=instability, reverse=True)
    if not worst:
        return []
    rows = [
        [
            record.model,
            record.expression,
            *(sum(one.total(column) for one in record.runtimes) for column in COUNTED),
            sum(one.errors for one in record.runtimes),
        ]
        for record in worst[:_WORST]
    ]
    head = ("model", "computes", "NaN", "Inf", "overflow", "underflow", "disagreement", "errors")
    more = [f"and {len(worst) - _WORST} more in summary.csv.", ""] if len(worst) > _WORST else []
    return ["## The least stable models", "", *table(head, rows), "", *more]


def _conflict_lines(records: Sequence[ModelRecord]) -> list[str]:
    rows = []
    for record in records:
        if not record.conflicts:
            continue
        wrong = [one.framework for one in record.runtimes if one.verdict == "fail"]
        sides = [
            ", ".join(dict.fromkeys(name for conflict in record.conflicts for name in getattr(conflict, side)))
            for side in ("nan", "inf", "finite")
        ]
        elements = sum(conflict.elements for conflict in record.conflicts)
        rows.append([record.model, len(record.conflicts), elements, *sides, ", ".join(wrong) or "legal"])
    if not rows:
        return []
    rows.sort(key=lambda row: row[-1] == "legal")
    head = ("model", "inputs", "elements", "NaN in", "Inf in", "a number in", "wrong by the oracle")
    return [
        "## Where runtimes disagree",
        "",
        "One runtime has NaN or an infinity where another has a number; a runtime may be on several sides, in different"
        " elements. *Legal*: rounding, the order of a sum, or what a compiler declares of subnormal numbers decides.",
        "",
        *table(head, rows[:_WORST]),
        "",
        *([f"and {len(rows) - _WORST} more in the models' JSON.", ""] if len(rows) > _WORST else []),
    ]


def _finding_lines(bugs: Iterable[Bug]) -> list[str]:
    lines = [f"- `{bug.id}` {markdown(bug.summary, 200)}" for bug in bugs]
    if not lines:
        return ["## Findings", "", "None: every runtime stays within what rounding allows.", ""]
    return ["## Findings", "", "In the store; `driftline bugs show ID` has everything.", "", *lines, ""]
