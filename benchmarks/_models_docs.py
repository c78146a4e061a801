"""docs/models.md: the table of models and compilers, and what was read by hand."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from driftline.bench.suite import SUITE
from driftline.models import CATALOGUE

OF_A_PAGE = "page-"  # keys of answers that were read back from docs/models.md begin with it
_MARKS = {"pass": "pass", "rejected": "-", "inconclusive": "?", "skipped": "", "not exported": "n/e"}


def why(row: Any, read: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The note of somebody who read this answer."""
    for note in read:
        named = any(fnmatch.fnmatch(row.model, pattern) for pattern in note["models"])
        there = any(fnmatch.fnmatch(row.target, pattern) for pattern in note["targets"])
        formed = fnmatch.fnmatch(row.form, note.get("form", "*"))
        kinds = row.kind in note["kinds"] if "kinds" in note else True
        said = note.get("reason", "") in row.reason  # a note explains what was read, not whatever fails there next
        if named and there and formed and kinds and said and re.fullmatch(note.get("machine", ".*"), row.machine):
            return note
    return None


def page(rows: list[Any], read: Sequence[dict[str, Any]], must_hold: Sequence[str], files: Sequence[str]) -> str:
    live = [row for row in rows if row.form == "live"]
    machines = ", ".join(sorted({row.machine for row in rows}))
    releases = sorted({(row.target, row.version) for row in rows})
    parts = [
        "# Real models on every compiler\n",
        "Written by `python benchmarks/models.py --write-docs` from the answers of `python benchmarks/models.py`;"
        f" machine: {machines}. Each model is built from its configuration with seeded weights"
        " (`driftline models list`), and checked with its example inputs: `driftline check model:NAME`.\n",
        f"{_counts(live)}\n",
        _origin(rows),
        _table(live, read),
        "\n`pass`: agrees with the reference. `fail` with a number: see the notes. `reduced`: agrees if the compiler"
        " may compute in a narrower type. `-`: rejected, the compiler does not support it. `?`: inconclusive. `n/e`:"
        " the exporter refused.\n",
        "## ONNX files of both exporters\n",
        "The dynamo exporter at opset 18, and the TorchScript exporter at opset 14 with named dynamic axes, which is"
        " what `optimum` writes (`driftline models export NAME --as onnx --exporter torchscript --opset 14`).\n",
        _files_table(rows, read, must_hold, files),
        "\n## The models of `driftline bench`\n",
        "They are models of this corpus. What the oracle says of them at full size, beside their times, is in"
        " [the suite, model by model](case-studies.md).\n",
        _suite_table(rows),
        "\n## What was read\n",
        *_notes(rows, read),
        "\n## Rejected\n",
        *_rejections(live),
        "\n## Time and memory\n",
        "Of the answers whose times are kept, on 2 very busy cores: they say which targets are slow,"
        " not how fast they are. Most of what `inductor` and `aotinductor` take is g++: U-Net (unet-2015-narrow) is 24"
        " files and 35 s of processor time to compile, 25 s of them in g++, which was 118 s at load 12.\n",
        _costs(rows),
        "\nReleases: " + ", ".join(f"{target} {version}" for target, version in releases) + ".\n",
    ]
    return "\n".join(parts)


def _origin(rows: list[Any]) -> str:
    """What of the page is how old, and what an empty cell means."""
    old, new = (sum(row.key.startswith(OF_A_PAGE) == taken for row in rows) for taken in (True, False))
    told = (
        "Answers were gathered over days while Driftline's own judgement changed, and are not all of one commit;"
        " `--again` asks anew."
    )
    if old:
        told += (
            f" Of the {old + new} answers in both tables {old} were read back from an earlier version of this page,"
            f" without their times, and {new} were asked since."
        )
    return (
        f"{told} An empty cell has no answer: it was not asked, the target does not take the model, or the machine was"
        " too busy for it to answer in time.\n"
    )


def _counts(rows: Iterable[Any]) -> str:
    counts = Counter(row.verdict for row in rows)
    models = len({row.model for row in rows})
    return f"{models} models, {sum(counts.values())} answers: " + ", ".join(
        f"{count} {verdict}" for verdict, count in counts.most_common()
    )


def _cell(row: Any, read: Sequence[dict[str, Any]]) -> str:
    note = why(row, read) if row.verdict not in ("pass", "rejected") else None
    number = f" [{read.index(note) + 1}](#what-was-read)" if note else ""
    if row.verdict == "reduced-precision":
        return f"reduced{number}"
    return _MARKS.get(row.verdict, row.verdict) + number


def _table(rows: list[Any], read: Sequence[dict[str, Any]]) -> str:
    targets = _ordered(rows)
    cells = {(row.model, row.target): _cell(row, read) for row in rows}
    lines = ["| model | " + " | ".join(targets) + " |", "|---" * (len(targets) + 1) + "|"]
    present = {row.model for row in rows}
    for name in CATALOGUE:
        if name in present:
            lines.append(f"| {name} | " + " | ".join(cells.get((name, target), "") for target in targets) + " |")
    return "\n".join(lines)


def _files_table(
    rows: list[Any], read: Sequence[dict[str, Any]], must_hold: Sequence[str], files: Sequence[str]
) -> str:
    wanted = [
        row for row in rows if row.form in files or (row.model in must_hold and CATALOGUE[row.model].form == "onnx")
    ]
    targets = _ordered(wanted)
    cells = {(row.model, row.form, row.target): _cell(row, read) for row in wanted}
    lines = ["| model | file | " + " | ".join(targets) + " |", "|---" * (len(targets) + 2) + "|"]
    for name in CATALOGUE:
        for form in dict.fromkeys(row.form for row in wanted if row.model == name):
            label = "as its tool wrote it" if form == "live" else form.replace("-", ", opset ")
            found = (cells.get((name, form, target), "") for target in targets)
            lines.append(f"| {name} | {label} | " + " | ".join(found) + " |")
    return "\n".join(lines)


def _suite_table(rows: list[Any]) -> str:
    lines = ["| model | full size | small | answers here |", "|---|---|---|---|"]
    for name, sizes in SUITE.items():
        full, small = (sizes[size].corpus for size in ("full", "small"))
        counts = Counter(row.verdict for row in rows if row.model in (full, small))
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        lines.append(f"| {name} | {full} | {small} | {said} |")
    return "\n".join(lines)


def _ordered(rows: Iterable[Any]) -> list[str]:
    counts = Counter(row.target for row in rows)
    return [target for target, _ in counts.most_common()]


def _notes(rows: list[Any], read: Sequence[dict[str, Any]]) -> Iterable[str]:
    for number, note in enumerate(read, 1):
        hit = sorted({row.model for row in rows if row.verdict != "pass" and why(row, read) is note})
        if hit:
            yield f"{number}. **{note['class']}**, {', '.join(note['targets'])}: {note['why']} ({', '.join(hit)})"


def _rejections(rows: Iterable[Any]) -> Iterable[str]:
    told: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        if row.verdict == "rejected":
            # Names of operators stay, long texts and numbers go.
            reason = re.sub(r"0x[0-9a-f]+|\d{3,}|\"[^\"]{40,}\"|'[^']{40,}'", "…", " ".join(row.reason.split()))
            told[row.target, reason[:200]].add(row.model)
    for (target, reason), models in sorted(told.items()):
        yield f"- {target}: {reason} ({', '.join(sorted(models))})"


def _costs(rows: list[Any]) -> str:
    rows = [row for row in rows if not row.key.startswith(OF_A_PAGE)]  # of those no time is kept
    lines = ["| target | median seconds of one answer | longest | greatest memory |", "|---|---|---|---|"]
    for target in _ordered(rows):
        seconds = sorted(row.seconds for row in rows if row.target == target)
        peak = max(row.peak_mb for row in rows if row.target == target)
        lines.append(f"| {target} | {seconds[len(seconds) // 2]:g} | {seconds[-1]:g} | {peak} MB |")
    return "\n".join(lines)
