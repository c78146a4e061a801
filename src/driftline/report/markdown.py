"""The report as Markdown: a summary that reads well in a terminal, an issue or a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from driftline.core.quoting import Markdown, cell, code, fenced, markdown
from driftline.report import words
from driftline.report.clearest import clearest
from driftline.report.model_use import HEAD, model_cells, wasted
from driftline.report.settlement import account
from driftline.report.view import (
    ACCEPTED,
    FIXED,
    FLAKY,
    KNOWN,
    OPEN,
    REDUCED,
    BugView,
    ComparisonView,
    ReportView,
    Statistics,
)

REASONS = 10


def render(report: ReportView) -> str:
    lines = ["# Driftline report", "", markdown(report.verdict), ""]
    lines += [*(f"- {markdown(gap)}" for gap in report.gaps), *([""] if report.gaps else [])]
    lines += _matrix(report)
    if clear := clearest(report.group(OPEN)):
        lines += [f"The clearest one: {code(clear.id)}, {markdown(clear.title)}.", ""]
    titles = {OPEN: "Bugs", REDUCED: "Less precise", KNOWN: "Known already", ACCEPTED: "Accepted", FLAKY: "Flaky"}
    titles[FIXED] = "Fixed"
    for group, title in titles.items():
        bugs = report.group(group)
        if bugs:
            lines += [f"## {title} ({len(bugs)})", "", *_bug_table(bugs), ""]
    lines += _causes(report)
    for bug in report.group(OPEN):
        lines += _details(bug)
    lines += _statistics(report.statistics)
    lines += ["## Environment", ""]
    lines += _table(("", ""), [*report.environment.versions.items(), *report.environment.facts.items()])
    lines += ["", f"Store {code(report.store)}, Driftline {markdown(report.driftline)}, {markdown(report.made)}."]
    return "\n".join(lines) + "\n"


def render_comparison(comparison: ComparisonView) -> str:
    lines = ["# Driftline comparison", "", markdown(comparison.verdict), ""]
    lines += [f"From {code(comparison.before)} to {code(comparison.after)}.", ""]
    for title, bugs in (
        ("New", comparison.new),
        ("No longer seen", comparison.fixed),
        ("Still there", comparison.still),
    ):
        lines += [f"## {title} ({len(bugs)})", ""]
        rows = [(code(bug.id), bug.title, comparison.notes.get(bug.id, bug.group)) for bug in bugs]
        lines += [*(_table(("bug", "what is wrong", ""), rows) if rows else ["None."]), ""]
    for bug in comparison.new:
        lines += _details(bug)
    return "\n".join(lines).rstrip() + "\n"


def _matrix(report: ReportView) -> list[str]:
    kinds = list(dict.fromkeys(bug.kind for bug in report.bugs if bug.group in (OPEN, REDUCED, KNOWN)))
    if not kinds:
        return []
    rows = [
        (compiler, *(row.get(kind, "") for kind in kinds), sum(row.values())) for compiler, row in report.matrix.items()
    ]
    return [*_table(("compiler", *kinds, "all"), rows), ""]


def _causes(report: ReportView) -> list[str]:
    """Return a Markdown list of causes, each with the bugs that it explains."""
    lines = [f"## Causes ({len(report.causes)})", ""] if report.causes else []
    for cause, bugs in report.causes:
        lines += [f"- {markdown(words.cause(cause))}: {', '.join(code(bug.id) for bug in bugs)}"]
    return [*lines, ""] if lines else []


def _bug_table(bugs: Sequence[BugView]) -> list[str]:
    rows = [(code(bug.id), bug.severity_name, _titled(bug), bug.sightings) for bug in bugs]
    return _table(("bug", "severity", "what is wrong", "sightings"), rows)


def _titled(bug: BugView) -> str:
    return Markdown(f"{markdown(bug.title)} (like {code(bug.like.bug)})") if bug.like else bug.title


def _details(bug: BugView) -> list[str]:
    lines = [f"### {markdown(bug.id)}: {markdown(bug.title)}", ""]
    lines += _reason(bug)
    for cause in bug.causes:
        lines += [f"Cause: {markdown(words.cause(cause))}.", ""]
    if bug.debate:
        lines += [f"Debatable: {markdown(bug.debate)}.", ""]
    if bug.like:
        lines += [f"Looks like {code(bug.like.bug)}: {markdown(words.likeness(bug.like))}.", ""]
    if bug.rule:
        proof = f"; it passes on {code(bug.rule.proof)}" if bug.rule.proof else ""
        name, where, change = code(bug.rule.name), markdown(bug.rule.where), markdown(bug.rule.change)
        lines += [f"Rewrite rule {name} ({where}), brought out by: {change}{proof}.", ""]
    if bug.explanation:
        lines += [*(f"- {markdown(line)}" for line in bug.explanation.sentences), ""]
        if bug.explanation.reduced:
            lines += [
                f"Reduced ({markdown(bug.explanation.ended)}):",
                "",
                fenced(bug.explanation.reduced.strip(), "python" if bug.explanation.python else ""),
                "",
            ]
    m = bug.mismatch
    if m and m.places:
        if m.wrong and m.size:
            lines += [f"{m.wrong:,} of {m.size:,} elements of {code(m.output or 'the output')} are wrong.", ""]
        rows = [(p.index, p.expected, p.got, p.off) for p in m.places]
        lines += [*_table(("place", "expected", "got", "off by"), rows), ""]
    if bug.others:
        said = [f"{markdown(target)}: {markdown(answer)}" for target, answer in bug.others.items()]
        lines += [f"Other compilers on the same program: {', '.join(said)}", ""]
    version = f" {', '.join(bug.versions)}" if bug.versions else ""
    target = markdown(f"{bug.target}{version}")
    lines += [f"{target}, {words.plural(bug.sightings, 'sighting')}. Replay: {code(bug.replay)}", ""]
    return lines


def _reason(bug: BugView) -> list[str]:
    """Return Markdown lines that say why a bug is one: its reason, or, for a script, its differences and its text."""
    if not bug.differences:
        return [markdown(bug.reason), ""]
    return [*(f"- {markdown(line)}" for line in bug.differences), "", fenced(bug.script.strip(), "python"), ""]


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
    lines += _settlement(statistics)
    if statistics.models:
        lines += ["Programs of language models:", ""]
        lines += [*_table(HEAD, [model_cells(use) for use in statistics.models]), ""]
        if said := wasted(statistics.models):
            lines += [markdown(f"No programs: {said}."), ""]
    if statistics.slowest:
        rows = [
            (one.target, one.program, one.step, f"{one.seconds:.1f} s", one.judgement) for one in statistics.slowest
        ]
        lines += [
            "Programs that took longest:",
            "",
            *_table(("target", "program", "step", "time", "verdict"), rows),
            "",
        ]
    if statistics.untested:
        lines += ["Not tested:", "", *(f"- {markdown(line)}" for line in statistics.untested), ""]
    for verdict, told in statistics.reasons.items():
        if told:
            lines += [f"Reasons for {markdown(verdict)}:", ""]
            lines += _table(("programs", "reason"), [(f"{n:,}", reason) for reason, n in list(told.items())[:REASONS]])
            lines += [f"\nand {len(told) - REASONS} more", ""] if len(told) > REASONS else [""]
    return lines


def _settlement(statistics: Statistics) -> list[str]:
    """Return Markdown lines on the outcome of the failing programs, with a table of those that no compiler is blamed
    for.
    """
    told = markdown(account(statistics.suspects))
    if not statistics.unsettled:
        return [told, ""] if told else []
    rows = [(one.target, one.program, one.kind, f"{one.state}: {one.reason}") for one in statistics.unsettled]
    return [told, "", *_table(("target", "program", "kind", "why no compiler is blamed"), rows), ""]


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    def line(cells: Iterable[object]) -> str:
        return "| " + " | ".join(cell(text if isinstance(text, str) else str(text)) for text in cells) + " |"

    return [line(head), "|" + "---|" * len(head), *(line(row) for row in rows)]
