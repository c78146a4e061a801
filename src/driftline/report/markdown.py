"""The report as Markdown: a summary that reads well in a terminal, an issue or a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from driftline.report import words
from driftline.report.view import FIXED, FLAKY, KNOWN, OPEN, Bug, Comparison, Report, Statistics

REASONS = 10


def render(report: Report) -> str:
    lines = ["# Driftline report", "", report.verdict, ""]
    lines += _matrix(report)
    for title, group in (("Bugs", OPEN), ("Known already", KNOWN), ("Flaky", FLAKY), ("Fixed", FIXED)):
        bugs = report.group(group)
        if bugs:
            lines += [f"## {title} ({len(bugs)})", "", *_bug_table(bugs), ""]
    for bug in report.group(OPEN):
        lines += _details(bug)
    lines += _statistics(report.statistics)
    lines += ["## Environment", ""]
    lines += _table(("", ""), [*report.environment.versions.items(), *report.environment.facts.items()])
    lines += ["", f"Store `{report.store}`, Driftline {report.driftline}, {report.made}."]
    return "\n".join(lines) + "\n"


def render_comparison(comparison: Comparison) -> str:
    lines = ["# Driftline comparison", "", comparison.verdict, ""]
    lines += [f"From `{comparison.before}` to `{comparison.after}`.", ""]
    for title, bugs in (
        ("New", comparison.new),
        ("No longer seen", comparison.fixed),
        ("Still there", comparison.still),
    ):
        lines += [f"## {title} ({len(bugs)})", ""]
        rows = [(f"`{bug.id}`", bug.title, comparison.notes.get(bug.id, bug.group)) for bug in bugs]
        lines += [*(_table(("bug", "what happens", ""), rows) if rows else ["None."]), ""]
    for bug in comparison.new:
        lines += _details(bug)
    return "\n".join(lines).rstrip() + "\n"


def _matrix(report: Report) -> list[str]:
    kinds = list(dict.fromkeys(bug.kind for bug in report.bugs if bug.group in (OPEN, KNOWN)))
    if not kinds:
        return []
    rows = [
        (compiler, *(row.get(kind, "") for kind in kinds), sum(row.values())) for compiler, row in report.matrix.items()
    ]
    return [*_table(("compiler", *kinds, "all"), rows), ""]


def _bug_table(bugs: Sequence[Bug]) -> list[str]:
    rows = [(f"`{bug.id}`", bug.severity_name, _titled(bug), bug.sightings) for bug in bugs]
    return _table(("bug", "severity", "what happens", "sightings"), rows)


def _titled(bug: Bug) -> str:
    return f"{bug.title} (like `{bug.like.bug}`)" if bug.like else bug.title


def _details(bug: Bug) -> list[str]:
    lines = [f"### {bug.id}: {_plain(bug.title)}", "", _plain(bug.reason), ""]
    if bug.known_title:
        told = " ".join(filter(None, (f"{bug.known_title}.", bug.known_note, bug.known_url)))
        lines += [f"{'Known' if bug.known_url else 'Cause'}: {_plain(told)}", ""]
    if bug.like:
        lines += [f"Looks like `{bug.like.bug}`: {words.likeness(bug.like)}.", ""]
    if bug.rule:
        proof = f"; it passes on `{bug.rule.proof}`" if bug.rule.proof else ""
        lines += [f"Rewrite rule `{bug.rule.name}` ({bug.rule.where}), brought out by: {bug.rule.change}{proof}.", ""]
    if bug.explanation:
        lines += [*(f"- {_plain(line)}" for line in bug.explanation.sentences), ""]
        if bug.explanation.reduced:
            lines += [
                f"Reduced ({bug.explanation.ended}):",
                "",
                f"```{'python' if bug.explanation.python else ''}",
                bug.explanation.reduced.strip(),
                "```",
                "",
            ]
    m = bug.mismatch
    if m and m.places:
        if m.wrong and m.size:
            lines += [f"{m.wrong:,} of {m.size:,} elements of `{m.output or 'the output'}` are wrong.", ""]
        rows = [(p.index, p.expected, p.got, p.off) for p in m.places]
        lines += [*_table(("place", "expected", "got", "off by"), rows), ""]
    if bug.others:
        lines += ["Others: " + ", ".join(f"{target}: {said}" for target, said in bug.others.items()), ""]
    version = f" {', '.join(bug.versions)}" if bug.versions else ""
    lines += [f"{bug.target}{version}, {words.plural(bug.sightings, 'sighting')}. Replay: `{bug.replay}`", ""]
    return lines


def _statistics(statistics: Statistics | None) -> list[str]:
    if statistics is None:
        return []
    verdicts = ("pass", "fail", "rejected", "inconclusive", "invalid", "nothing")
    rows = [
        (
            lane.target,
            f"{lane.programs:,}",
            *(f"{lane.verdicts.get(v, 0):,}" for v in verdicts),
            words.duration(lane.seconds),
        )
        for lane in statistics.lanes
    ]
    lines = ["## What was tested", "", *_table(("target", "programs", *verdicts, "time"), rows), ""]
    if statistics.untested:
        lines += ["Not tested:", "", *(f"- {_plain(line)}" for line in statistics.untested), ""]
    for verdict, told in statistics.reasons.items():
        if told:
            lines += [f"Reasons for {verdict}:", ""]
            lines += _table(("programs", "reason"), [(f"{n:,}", reason) for reason, n in list(told.items())[:REASONS]])
            lines += [f"\nand {len(told) - REASONS} more", ""] if len(told) > REASONS else [""]
    return lines


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    def line(cells: Iterable[object]) -> str:
        return "| " + " | ".join(_plain(str(cell)) for cell in cells) + " |"

    return [line(head), "|" + "---|" * len(head), *(line(row) for row in rows)]


def _plain(text: str) -> str:
    """One line, in which nothing ends a table cell or starts a tag."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
