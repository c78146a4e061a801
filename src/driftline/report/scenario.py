"""Show the result of checking a script, on the screen and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from driftline.core.text import first_line, plural
from driftline.core.verdict import Judgement
from driftline.report.results import SCHEMA, bug_json, command, replay_command
from driftline.report.screen import console
from driftline.report.worded_table import SEEN, WordedTable
from driftline.scenarios.check import ScriptCheck
from driftline.scenarios.judge import ScriptResult

_STYLES = {Judgement.PASS: "green", Judgement.FAIL: "bold red", Judgement.INCONCLUSIVE: "yellow"}
LONGEST = 600  # characters of a sentence


def show_script(found: ScriptCheck) -> None:
    """Print a row for each target, every difference of the first event that differs, and the bugs."""
    out = console()
    calls = plural(found.results[0].calls, "call")
    out.print(f"[bold]{escape(found.script.name)}[/] (a script; {calls} of compiled code)")
    table = WordedTable(("target", "verdict", "events", "seconds", SEEN), words=SEEN, header_style="dim")
    for result in found.results:
        verdict = f"[{_STYLES.get(result.judgement, 'dim')}]{result.judgement}[/]"
        seconds = f"{sum(result.seconds.values()):.1f}"
        seen = escape(first_line(result.reason, LONGEST))
        table.add(escape(result.target), verdict, str(result.events), seconds, seen)
    table.print(out)
    for result in found.results:
        _show_differences(out, result)
    _show_bugs(out, found)
    out.print(_closing_line(found.results, compared=found.compared))


def _show_differences(out: Console, result: ScriptResult) -> None:
    for difference in result.differences:
        out.print(f"[bold]{difference.id}[/]  [dim]{escape(result.target)}[/]", soft_wrap=True)
        out.print(Padding(escape(first_line(difference.sentence, LONGEST)), (0, 0, 0, 2)))
    for sentence in result.notes:
        out.print(f"[dim]{escape(result.target)}: {escape(sentence)}[/]", soft_wrap=True)


def _show_bugs(out: Console, found: ScriptCheck) -> None:
    """Print for each bug the commands to replay and to explain it."""
    for name in dict.fromkeys(bug.id for bug in found.bugs.values()):
        out.print(f"replay: [bold]{escape(replay_command(name, found.store))}[/]", soft_wrap=True)
        out.print(f"explain it: [bold]{escape(command('diagnose', name, found.store))}[/]", soft_wrap=True)


def _closing_line(results: Sequence[ScriptResult], *, compared: bool) -> str:
    counts = [(judgement, sum(result.judgement is judgement for result in results)) for judgement in Judgement]
    words = ", ".join(f"{count} {judgement}" for judgement, count in counts if count)
    return words + ("." if compared else ": nothing was compared.")


def script_json(found: ScriptCheck) -> dict[str, Any]:
    """Return the output of `driftline check SCRIPT --json`; docs/json.md has the schema."""
    bugs = {bug.id: bug for bug in found.bugs.values()}
    return {"schema": SCHEMA, **found.to_json(), "bugs": [bug_json(bug, found.store) for bug in bugs.values()]}
