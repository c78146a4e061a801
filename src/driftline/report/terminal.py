"""Print checks, bugs, replays and the state of backends on the screen."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

from driftline.causes import Library
from driftline.checking.checker import Skipped, TargetResult
from driftline.checking.doctor import DoctorReport
from driftline.checking.result import CheckResult, Replay, ReplayAnswer
from driftline.core.program import SCRIPT, Program
from driftline.core.target import Target
from driftline.core.tensors import spec_of
from driftline.core.text import first_line
from driftline.core.verdict import Judgement
from driftline.report.annotated import causes_of, is_accepted, words_of
from driftline.report.baseline import Compared
from driftline.report.compared import compared_words
from driftline.report.debate import debate_of
from driftline.report.evidence_text import evidence_lines
from driftline.report.explained import StepResults, explained_so_far
from driftline.report.mismatch import describe_tensor
from driftline.report.program import program_text
from driftline.report.results import command, replay_command
from driftline.report.screen import console
from driftline.report.title_facts import facts_of
from driftline.report.titles import title_of
from driftline.report.worded_table import SEEN, WordedTable
from driftline.report.words import blamed, origin_words, plural, program_words, reason_with, uncoloured
from driftline.scenarios.keeping import DIFFERENCES
from driftline.store import Bug, Finding, Store

LINE = 2000  # characters of a line of a program
_STYLES = {
    Judgement.PASS: "green",
    Judgement.FAIL: "bold red",
    Judgement.REDUCED: "cyan",
    Judgement.INCONCLUSIVE: "yellow",
    Judgement.REJECTED: "dim",
}


def row_line(row: TargetResult | Skipped) -> str:
    """Describe the result of one target in one line."""
    if isinstance(row, Skipped):
        return f"skipped ({first_line(row.reason, 200)})"
    seconds = row.execution.durations.get("total", 0.0) + row.execution.durations.get("convert", 0.0)
    told = "" if row.verdict.judgement is Judgement.PASS else f": {first_line(row.verdict.reason, 200)}"
    return f"{row.verdict.judgement} after {seconds:.1f} s{told}"


def show_check(
    result: CheckResult,
    *,
    explained: bool = False,
    baseline: Compared | None = None,
    library: Library | None = None,
) -> None:
    """Print the result of a check. `explained`: the explanations of the bugs follow, so the command that makes them is
    not printed.
    """
    out = console()
    case = result.outcome.case
    inputs = ", ".join(str(spec) for spec in case.program.inputs) or "no inputs"
    samples = f"; {len(case.samples)} samples" if len(case.samples) > 1 else ""
    against = f" against {case.program.name}" if case.deployed else ""
    out.print(
        f"[bold]{escape(case.runs.name)}[/]{escape(against)} ({case.program.framework}; {escape(inputs)}{samples})"
    )
    table = WordedTable(("target", "version", "verdict", "seconds", SEEN), words=SEEN, header_style="dim")
    accepted = [target for target, bug in result.bugs.items() if is_accepted(bug, library)]
    for row in result.results:
        seconds = f"{row.execution.durations.get('total', 0.0) + row.execution.durations.get('convert', 0.0):.2f}"
        verdict = f"[{_STYLES[row.verdict.judgement]}]{row.verdict.judgement}[/]"
        if baseline and row.target in baseline.known:
            verdict = "[yellow]known[/]"
        if row.target in accepted:
            verdict = "[yellow]accepted[/]"
        reference = result.outcome.case.program.name if result.outcome.case.deployed else ""
        seen = escape(first_line(reason_with(row.blame, row.verdict, reference), 400) + _further(row))
        table.add(str(row.target), row.execution.version, verdict, seconds, seen)
    for skipped in result.outcome.skipped:
        table.add(str(skipped.target), "", "[dim]skipped[/]", "", f"[dim]{escape(skipped.reason)}[/]")
    table.print(out)
    for sentence in filter(None, (compared_words(result.outcome), *result.notes)):
        out.print(f"[dim]{escape(sentence)}[/]", soft_wrap=True)
    shown: set[str] = set()
    for bug in result.bugs.values():
        if bug.id not in shown:
            card = _explain(_rows_of(bug, result), bug, result, explained, library)
            out.print(Panel(card, title=f"[bold red]{bug.id}[/]", title_align="left"))
        shown.add(bug.id)
    if baseline:
        out.print(escape(str(baseline)), soft_wrap=True)
    out.print(_closing_line(result, baseline.known if baseline else (), accepted))


def _further(row: TargetResult) -> str:
    """Return text to append to the reason of a row: its effect on the model's output, and how to accept the
    deviation.
    """
    if row.verdict.judgement is Judgement.PASS and not row.verdict.evidence.accepted:
        return ""
    effect = f"; {row.culprit.target} itself is wrong in the same way" if row.culprit else ""
    effect += f"; {row.effect}" if row.effect else ""
    accept = row.verdict.evidence.accept if row.verdict.judgement is Judgement.REDUCED else ""
    return f"{effect}. Accept it with {accept}" if accept else effect


def _rows_of(bug: Bug, result: CheckResult) -> list[TargetResult]:
    """Return the results that show the same bug: several targets may run the same faulty code."""
    return [row for row in result.results if row.target in result.bugs and result.bugs[row.target].id == bug.id]


def _explain(
    rows: Sequence[TargetResult], bug: Bug, result: CheckResult, explained: bool, library: Library | None
) -> str:
    row, case, store = rows[0], result.outcome.case, result.store
    failed, runs = row.failed_runs
    reduced = row.verdict.judgement is Judgement.REDUCED
    named = row.verdict.judgement if reduced else row.verdict.kind
    targets = ", ".join(f"{one.target} {one.execution.version}" for one in rows)
    lines = [f"[bold]{escape(title_of(bug))}[/]", escape(f"{targets}: {named}")]
    reference = case.program.name if case.deployed else ""
    lines.append(escape(first_line(reason_with(row.blame, row.verdict, reference), 800)))
    if row.effect:
        lines.append(escape(f"in use: {row.effect}"))
    if row.blame:
        lines.append(escape(blamed(row.blame, reference)))
    if row.flaky:
        lines.append(f"[yellow]flaky: failed in {failed} of {runs} runs[/]")
    else:
        lines.append(f"confirmed: failed in {failed} of {runs} runs, the last in a fresh process")
    if len(bug.findings) > 1:
        lines.append(f"seen in {len(bug.findings)} cases, first on {bug.first_seen}; status {bug.status}")
    lines += [escape(words_of(cause)) for cause in causes_of(bug, library)]
    lines += [f"debatable: {escape(debate)}"] if (debate := debate_of(bug)) else []
    lines.append(f"replay: [bold]{escape(replay_command(bug.id, store))}[/]")
    if not explained and not case.deployed:
        lines.append(f"explain it: [bold]{escape(command('diagnose', bug.id, store))}[/]")
    return "\n".join(lines)


def _closing_line(result: CheckResult, known: Sequence[Target] = (), accepted: Sequence[Target] = ()) -> str:
    """Return the closing line with the number of targets for each verdict. Known and accepted failures are counted
    apart.
    """
    parts = []
    for judgement in Judgement:
        rows = [
            row.target in known
            for row in result.results
            if row.verdict.judgement is judgement and row.target not in accepted
        ]
        if new := rows.count(False):
            parts.append(f"{new} {judgement}")
        if old := rows.count(True):
            parts.append(plural(old, "known failure") if judgement is Judgement.FAIL else f"{old} known {judgement}")
    if accepted:
        parts.append(plural(len(accepted), "accepted failure"))
    words = ", ".join(parts)
    if not result.compared:
        words = f"{words or 'nothing ran'}: nothing was compared"
    kept = f" Kept in {escape(str(result.store))}." if result.bugs else ""
    return f"{words}.{kept}"


def show_doctor(report: DoctorReport) -> None:
    """Print the state of every backend, the environment and the sandbox."""
    out = console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("backend", "version", "devices"):
        table.add_column(column, no_wrap=True)
    table.add_column("state")
    for backend in report.backends:
        if backend.available:
            state = "[green]available[/]"
        else:
            state = f"[yellow]{escape(backend.reason)}[/]" + (f"\n{escape(backend.install)}" if backend.install else "")
        table.add_row(backend.name, backend.version, ", ".join(backend.devices), state)
    out.print(table)
    here = report.environment
    others = ", ".join(here["other_versions"]) or "none; driftline env add onnxruntime==1.15.1 adds one"
    out.print(
        f"[dim]Driftline {here['driftline']}, Python {here['python']}, {here['processors']} processors,"
        f" {here['memory_gib']} GiB. Other versions: {escape(others)}.[/]"
    )
    active = "; ".join(f"{layer}: {what}" for layer, what in here["sandbox_layers"].items())
    out.print(f"[dim]Sandbox of workers: {escape(active)}.[/]", soft_wrap=True)
    for shortcoming in here["sandbox"]:
        out.print(f"[yellow]{escape(shortcoming)}.[/]", soft_wrap=True)
    if report.remembered:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(report.probed))
        out.print(f"[dim]As of {when}; nothing was installed since. driftline doctor --fresh looks again.[/]")


def show_bug(bug: Bug, store: Store, library: Library | None = None) -> None:
    """Print a bug in full: title, program, inputs, evidence, log, diagnosis so far, and the command to replay it."""
    out = console()
    finding = bug.findings[0]
    case = store.load_case(finding.case_id)
    out.print(f"[bold]{escape(title_of(bug, facts_of(case, finding.evidence)))}[/]")
    out.print(f"{bug.id}  {bug.status}  {escape(bug.fingerprint.kind)} at {escape(bug.fingerprint.stage)}")
    out.print(escape(bug.summary), soft_wrap=True)
    target = f"{finding.target} {finding.execution.get('version') or ''}".rstrip()
    ran = f"target {target}, program {program_words(case.runs.name)}"
    out.print(escape(f"{ran}, reference {case.program.name}" if case.deployed else ran))
    for cause in causes_of(bug, library):
        out.print(escape(words_of(cause)), soft_wrap=True)
    if debate := debate_of(bug):
        out.print(f"debatable: {escape(debate)}", soft_wrap=True)
    out.print(f"first seen {bug.first_seen}, last {bug.last_seen}, {plural(len(bug.findings), 'finding')}")
    out.print(f"fingerprint: {escape(str(bug.fingerprint))}")
    _show_rule(out, finding)
    _show_program(out, case.runs)
    for sample in case.samples:
        out.print(f"inputs: {escape(origin_words(sample.origin))}")
        for name, array in sample.arrays.items():
            out.print(escape(f"  {spec_of(name, array)} = {describe_tensor(name, array).values}"))
    if differences := finding.verdict.get(DIFFERENCES):
        out.print("differs from eager:")
    for one in differences or ():
        out.print(escape(f"  {one['id']}: {one['sentence']}"), soft_wrap=True)
    lines = [] if differences and not finding.evidence.worst else evidence_lines(finding.evidence)
    if lines:
        out.print("evidence:")
    for line in lines:
        out.print(escape(f"  {line}"), soft_wrap=True)
    failure = finding.execution.get("failure")
    if failure and failure["traceback"]:
        out.print(Panel(escape(uncoloured(failure["traceback"])), title="traceback", title_align="left"))
    if finding.execution.get("log"):
        out.print(Panel(escape(uncoloured(finding.execution["log"])), title="log", title_align="left"))
    _show_explained(out, explained_so_far(store, bug.id), store)
    for gap in store.gaps:
        out.print(f"[dim]{escape(gap)}[/]", soft_wrap=True)
    out.print(f"replay: [bold]{escape(replay_command(bug.id, store.path))}[/]")


def _show_rule(out: Console, finding: Finding) -> None:
    """Print the rewrite rule that an audit found wrong."""
    if rule := finding.verdict.get("rule"):
        mutation = finding.verdict.get("mutation") or ""
        out.print(f"rewrite rule: {escape(rule['name'])} ({escape(rule['where'])}), {escape(mutation)}")
        if finding.verdict.get("without"):
            out.print(f"it passes on {escape(finding.verdict['without'])}, where the rule may not fire")


def _show_program(out: Console, program: Program) -> None:
    text = ""
    with contextlib.suppress(Exception):  # a damaged model: where it lies is said instead
        text = program_text(program)
    if text:
        out.print(_listing(text, program_words(program.name), python=program.form in ("source", SCRIPT)))
    else:
        out.print(escape(f"program: {program.path} ({program.form})"))


def _listing(text: str, title: str, *, python: bool) -> Panel:
    """Return a program in a frame, with its longest lines cut: these hold weights."""
    shown = "\n".join(line if len(line) <= LINE else f"{line[:LINE]}…" for line in text.rstrip().splitlines())
    body = Syntax(shown, "python" if python else "text", word_wrap=True)
    return Panel(body, title=escape(title), title_align="left")


def _show_explained(out: Console, found: StepResults, store: Store) -> None:
    """Print the results of diagnosis so far, and the commands for the steps that were not run."""
    if found.results:
        out.print("[bold]explained so far[/]")
    if found.reduced:
        out.print(_listing(found.reduced, found.reduced_title, python=found.python))
    for sentence in found.sentences():
        out.print(escape(f"  {sentence}"))
    if commands := found.commands(store):
        out.print("[bold]still to do[/]")
    for line in commands:
        out.print(escape(f"  {line}"), soft_wrap=True)


def show_replay(answer: Replay) -> None:
    """Print the answer of a replay."""
    style = {"still fails": "bold red", "fixed": "green", "passes": "green", "differs": "yellow"}[answer.answer]
    out = console()
    out.print(f"{answer.bug.id} on {answer.result.target}: [{style}]{answer.answer}[/]")
    out.print(escape(answer.reason))
    if answer.answer is ReplayAnswer.STILL_FAILS:
        failed, runs = answer.result.failed_runs
        out.print(f"failed in {failed} of {runs} runs")
