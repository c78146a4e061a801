"""What people see on the screen."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

from driftline.checking.checker import TargetResult
from driftline.checking.doctor import DoctorReport
from driftline.checking.result import CheckResult, Replay, ReplayAnswer
from driftline.core.program import SourceBundle
from driftline.core.tensors import spec_of
from driftline.core.text import first_line
from driftline.core.verdict import Judgement
from driftline.report.results import replay_command
from driftline.store import Bug, Store

_STYLES = {
    Judgement.PASS: "green",
    Judgement.FAIL: "bold red",
    Judgement.INCONCLUSIVE: "yellow",
    Judgement.REJECTED: "dim",
}


def console() -> Console:
    """Wide enough for a table when the output is a file or a pipe."""
    width = None if sys.stdout.isatty() else max(120, shutil.get_terminal_size((120, 40)).columns)
    return Console(width=width, highlight=False)


def show_check(result: CheckResult) -> None:
    out = console()
    case = result.outcome.case
    inputs = ", ".join(str(spec) for spec in case.program.inputs) or "no inputs"
    samples = f"; {len(case.samples)} samples" if len(case.samples) > 1 else ""
    out.print(f"[bold]{escape(case.program.name)}[/] ({case.program.framework}; {escape(inputs)}{samples})")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("target", "version", "verdict", "seconds"):
        table.add_column(column, no_wrap=True)
    table.add_column("what was seen")
    for row in result.results:
        seconds = f"{row.execution.durations.get('total', 0.0) + row.execution.durations.get('convert', 0.0):.2f}"
        style = _STYLES[row.verdict.judgement]
        seen = escape(first_line(row.verdict.reason, 400))
        table.add_row(str(row.target), row.execution.version, f"[{style}]{row.verdict.judgement}[/]", seconds, seen)
    for skipped in result.outcome.skipped:
        table.add_row(str(skipped.target), "", "[dim]skipped[/]", "", f"[dim]{escape(skipped.reason)}[/]")
    out.print(table)
    for target, bug in result.bugs.items():
        row = next(r for r in result.results if r.target == target)
        out.print(Panel(_explain(row, bug, result.store), title=f"[bold red]{bug.id}[/]", title_align="left"))
    out.print(_closing_line(result))


def _explain(row: TargetResult, bug: Bug, store: Path) -> str:
    failed, runs = row.failed_runs
    lines = [escape(f"{row.target} {row.execution.version}: {row.verdict.kind}")]
    lines.append(escape(first_line(row.verdict.reason, 800)))
    if row.blame:
        lines.append(f"The conversion by {row.blame} is wrong already: the compiler is not to blame.")
    if row.flaky:
        lines.append(f"[yellow]flaky: failed in {failed} of {runs} runs[/]")
    else:
        lines.append(f"confirmed: failed in {failed} of {runs} runs, the last in a fresh process")
    if len(bug.findings) > 1:
        lines.append(f"seen in {len(bug.findings)} cases, first on {bug.first_seen}; status {bug.status}")
    lines.append(f"replay: [bold]{escape(replay_command(bug.id, store))}[/]")
    return "\n".join(lines)


def _closing_line(result: CheckResult) -> str:
    counts = {j: sum(r.verdict.judgement is j for r in result.results) for j in Judgement}
    words = ", ".join(f"{count} {judgement}" for judgement, count in counts.items() if count)
    if not counts[Judgement.PASS] and not counts[Judgement.FAIL]:
        words = f"{words}: nothing was compared" if words else ""
    kept = f" Kept in {escape(str(result.store))}." if result.bugs else ""
    return f"{words or 'nothing ran'}.{kept}"


def show_doctor(report: DoctorReport) -> None:
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


def show_bugs(bugs: list[Bug], store: Path) -> None:
    out = console()
    if not bugs:
        out.print(f"No bugs in {escape(str(store))}.")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("bug", "status", "kind", "stage"):
        table.add_column(column, no_wrap=True)
    table.add_column("what was seen")
    for bug in bugs:
        summary = escape(first_line(bug.summary, 200))
        table.add_row(bug.id, str(bug.status), bug.fingerprint.kind, bug.fingerprint.stage, summary)
    out.print(table)


def show_bug(bug: Bug, store: Store) -> None:
    out = console()
    finding = bug.findings[0]
    case = store.load_case(finding.case_id)
    out.print(f"[bold]{bug.id}[/]  {bug.status}  {bug.fingerprint.kind} at {bug.fingerprint.stage}")
    out.print(escape(bug.summary))
    out.print(
        f"target {escape(finding.target)} {escape(finding.execution['version'])}, program {escape(case.program.name)}"
    )
    out.print(f"first seen {bug.first_seen}, last {bug.last_seen}, {len(bug.findings)} finding(s)")
    out.print(f"fingerprint: {escape(str(bug.fingerprint))}")
    if rule := finding.verdict.get("rule"):
        out.print(f"rewrite rule: {escape(rule['name'])} ({rule['where']}), {escape(finding.verdict['mutation'])}")
        if finding.verdict.get("without"):
            out.print(f"it passes on {escape(finding.verdict['without'])}, where the rule may not fire")
    if case.program.form == "source":
        bundle = SourceBundle.load(case.program.path.read_bytes())
        out.print(
            Panel(
                Syntax(bundle.text, "python", word_wrap=True),
                title=f"program: {bundle.entry_name}()",
                title_align="left",
            )
        )
    else:
        out.print(f"program: {case.program.path} ({case.program.form})")
    for sample in case.samples:
        specs = ", ".join(str(spec_of(name, array)) for name, array in sample.arrays.items())
        out.print(f"inputs: {sample.origin} ({escape(specs)})")
    evidence = {k: v for k, v in finding.verdict["evidence"].items() if k not in ("log", "failure")}
    if evidence:
        out.print(f"evidence: {escape(json.dumps(evidence))}")
    failure = finding.execution.get("failure")
    if failure and failure["traceback"]:
        out.print(Panel(escape(failure["traceback"]), title="traceback", title_align="left"))
    if finding.execution.get("log"):
        out.print(Panel(escape(finding.execution["log"]), title="log", title_align="left"))
    out.print(f"replay: [bold]{escape(replay_command(bug.id, store.path))}[/]")


def show_replay(answer: Replay) -> None:
    style = {"still fails": "bold red", "fixed": "green", "differs": "yellow"}[answer.answer]
    out = console()
    out.print(f"{answer.bug.id} on {answer.result.target}: [{style}]{answer.answer}[/]")
    out.print(escape(answer.reason))
    if answer.answer is ReplayAnswer.STILL_FAILS:
        failed, runs = answer.result.failed_runs
        out.print(f"failed in {failed} of {runs} runs")
