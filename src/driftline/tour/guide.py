"""Runs the steps of the tour in order: explains each, waits for a key on a terminal, and records the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text

from driftline.report.progress import Activity
from driftline.tour.steps import STEPS, CannotShow, Shown, Tour, TourStep

GO, SKIP, QUIT = "go", "skip", "quit"
DONE, SKIPPED, IMPOSSIBLE = "done", "skipped", "not possible here"

Chooser = Callable[[TourStep], str]


@dataclass(frozen=True)
class StepRecord:
    """The result of one step of the tour: its state, the reason, and what was shown."""

    name: str
    state: str
    reason: str = ""
    command: str = ""
    lines: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "state": self.state,
            "reason": self.reason,
            "command": self.command,
            "lines": list(self.lines),
            "seconds": round(self.seconds, 1),
            **({"found": dict(self.facts)} if self.facts else {}),
        }


def go_on(step: TourStep) -> str:
    """Continue without asking: the output is not a terminal, or `--fast` was given."""
    return GO


def guide(
    tour: Tour,
    out: Console | None,
    *,
    skip: Collection[str] = (),
    ask: Chooser = go_on,
    steps: Sequence[TourStep] = STEPS,
) -> list[StepRecord]:
    """Run the steps of the tour and return a record of each. Without a console nothing is printed."""
    records = []
    for number, step in enumerate(steps, start=1):
        if step.name in skip:
            records.append(StepRecord(step.name, SKIPPED, "as asked for"))
            continue
        if out:
            out.print(f"\n[bold]{number} of {len(steps)}: {step.title}[/]")
            out.print(Padding(Text(step.about), (0, 0, 0, 2)))
        answer = ask(step)
        if answer == QUIT:
            break
        if answer == SKIP:
            records.append(StepRecord(step.name, SKIPPED, "by a key"))
            continue
        record, quoted = _taken(tour, step, out)
        records.append(record)
        if out:
            _print(out, record, quoted)
        if step.name == STEPS[0].name and record.state == IMPOSSIBLE:
            break  # nothing fails here, so there is nothing to explain
    return records


def _taken(tour: Tour, step: TourStep, out: Console | None) -> tuple[StepRecord, str]:
    began = time.monotonic()
    try:
        if out:
            with Activity(step.title, 60.0):
                shown = step.show(tour)
        else:
            shown = step.show(tour)
    except CannotShow as error:
        reason = str(error)
        return StepRecord(step.name, IMPOSSIBLE, reason, seconds=time.monotonic() - began), ""
    return _done(tour, step, shown, time.monotonic() - began), shown.quoted


def _done(tour: Tour, step: TourStep, shown: Shown, seconds: float) -> StepRecord:
    return StepRecord(step.name, DONE, "", step.command(tour), shown.lines, shown.facts, seconds)


def _print(out: Console, record: StepRecord, quoted: str) -> None:
    if record.state == IMPOSSIBLE:
        out.print(f"  [yellow]Not here: {escape(record.reason)}.[/]", soft_wrap=True)
        return
    out.print(f"  [cyan]$ {escape(record.command)}[/]", soft_wrap=True)
    for line in record.lines:
        out.print(Padding(Text(line), (0, 0, 0, 2)))
    if quoted:
        out.print(Padding(Panel(Text(quoted), expand=False), (0, 0, 0, 2)))
    out.print(f"  [dim]{record.seconds:.0f} s[/]")
