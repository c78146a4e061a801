"""A judged script on the screen and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.padding import Padding

from driftline.core.text import first_line, plural
from driftline.core.verdict import Judgement
from driftline.report.results import SCHEMA
from driftline.report.screen import console
from driftline.report.worded_table import SEEN, WordedTable
from driftline.scenarios.judge import ScriptResult

_STYLES = {Judgement.PASS: "green", Judgement.FAIL: "bold red", Judgement.INCONCLUSIVE: "yellow"}
LONGEST = 600  # characters of a sentence


def show_script(results: Sequence[ScriptResult]) -> None:
    """Print a row for each target, and below it every difference of the first event that differs."""
    out = console()
    script = results[0].script
    out.print(f"[bold]{escape(script.name)}[/] (a script; {plural(results[0].calls, 'call')} of compiled code)")
    table = WordedTable(("target", "verdict", "events", "seconds", SEEN), words=SEEN, header_style="dim")
    for result in results:
        verdict = f"[{_STYLES.get(result.judgement, 'dim')}]{result.judgement}[/]"
        seconds = f"{sum(result.seconds.values()):.1f}"
        seen = escape(first_line(result.reason, LONGEST))
        table.add(escape(result.target), verdict, str(result.events), seconds, seen)
    table.print(out)
    for result in results:
        for difference in result.differences:
            out.print(f"[bold]{difference.id}[/]  [dim]{escape(result.target)}[/]", soft_wrap=True)
            out.print(Padding(escape(first_line(difference.sentence, LONGEST)), (0, 0, 0, 2)))
        for sentence in result.notes:
            out.print(f"[dim]{escape(result.target)}: {escape(sentence)}[/]", soft_wrap=True)
    counts = [(judgement, sum(result.judgement is judgement for result in results)) for judgement in Judgement]
    words = ", ".join(f"{count} {judgement}" for judgement, count in counts if count)
    out.print(words + ("." if was_compared(results) else ": nothing was compared."))


def script_json(results: Sequence[ScriptResult]) -> dict[str, Any]:
    """The JSON of `driftline check SCRIPT --json`, documented in docs/json.md."""
    script = results[0].script
    return {
        "schema": SCHEMA,
        "script": {"name": script.name, "digest": script.digest},
        "results": [result.to_json() for result in results],
        "compared": was_compared(results),
    }


def was_compared(results: Sequence[ScriptResult]) -> bool:
    """True if any target was judged."""
    return any(result.judgement in (Judgement.PASS, Judgement.FAIL) for result in results)
