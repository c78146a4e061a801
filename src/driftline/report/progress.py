"""Progress on stderr: listeners that draw a bar on a terminal, and write plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import click

from driftline.core.terminal import is_quiet

if TYPE_CHECKING:
    from driftline.events import BugSeen, Event
    from driftline.store import Bug

LINE_EVERY = 10.0  # seconds between lines, without a terminal
_NARROW = 80  # columns below which there is no room for a bar


def note(line: str) -> None:
    """Print a line to stderr, so that it does not mix with the output of `--json`."""
    click.echo(line, err=True)


def progress_line(line: str) -> None:
    """Print a line of progress to stderr, unless --quiet is set."""
    if not is_quiet():
        note(line)


def new_bug_line(bug: Bug, how: str = "") -> str:
    """Return the line that announces a bug that is new to the store."""
    from driftline.report.titles import title_of

    return f"new  {bug.id}  {f'{how}: ' if how else ''}{title_of(bug)}"


def on_terminal() -> bool:
    """True if progress can be drawn on a terminal. Otherwise it is printed in plain lines."""
    return not is_quiet() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _drawn(*, counted: bool) -> Any:
    """Return a progress display of one line: title, bar, steps, time and current activity. A narrow terminal has no
    bar. Text that does not fit is cut, since a second line would make the display jump.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    from driftline.report.screen import Screen

    screen = Screen(stderr=True)
    narrow = screen.width < _NARROW
    columns = [
        TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=2)),
        *([] if narrow else [BarColumn()]),
        *([MofNCompleteColumn(table_column=Column(no_wrap=True))] if counted else []),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        TextColumn("[dim]{task.fields[now]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=3)),
    ]
    return Progress(*columns, console=screen, transient=True, expand=narrow)


class Ticker:
    """Progress over a number of steps, which may become known later: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, title: str, total: int | None = None) -> None:
        self._total = total
        self._done = 0
        self._running: list[str] = []
        self._bar: Any = None
        if on_terminal():
            from rich.markup import escape

            self._bar = _drawn(counted=True)
            self._task = self._bar.add_task(escape(title), total=total, now="")
            self._bar.start()
        else:
            progress_line(f"{title} ...")

    def expect(self, total: int) -> None:
        self._total = total
        if self._bar:
            self._bar.update(self._task, total=total)

    def started(self, name: str) -> None:
        self._running.append(name)
        if self._bar:
            self._bar.update(self._task, now=", ".join(self._running))

    def finished(self, name: str, outcome: str) -> None:
        self._done += 1
        if name in self._running:
            self._running.remove(name)
        if self._bar:
            self._bar.update(self._task, advance=1, now=", ".join(self._running))
        self.say(f"[{self._done}/{self._total or '?'}] {name}: {outcome}", kept=False)

    def advance(self, steps: int, words: str) -> None:
        """Count several steps as done."""
        self._done += steps
        if self._bar:
            self._bar.update(self._task, advance=steps)
        self.say(f"[{self._done}/{self._total or '?'}] {words}", kept=False)

    def show(self, words: str) -> None:
        """Show the current activity beside the bar. The text is replaced by the next one."""
        if self._bar:
            self._bar.update(self._task, now=words)

    def say(self, line: str, *, kept: bool = True) -> None:
        """Print a line above the bar. Lines that are not `kept` are printed only where there is no bar, as in a log."""
        if not self._bar:
            progress_line(line)
        elif kept:
            self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()


class CheckProgress(Ticker):
    """A listener of a check that shows a step for each target, and its result as soon as it is known."""

    def __call__(self, event: Event) -> None:
        from driftline.events import CheckStarted, TargetDone, TargetStarted
        from driftline.report.terminal import row_line

        if isinstance(event, CheckStarted):
            self.expect(len(event.targets))
        elif isinstance(event, TargetStarted):
            self.started(str(event.target))
            if event.expected is not None:
                self.say(f"{event.target} usually takes about {event.expected:.0f} s for a program of this size")
        elif isinstance(event, TargetDone):
            line = row_line(event.result)
            self.finished(str(event.target), line)
            if self._bar:
                self.say(f"{event.target}: {line}")


class StepProgress(Ticker):
    """A listener of work in steps that shows the outcome of each step and the current activity."""

    _last_line = 0.0

    def __call__(self, event: Event) -> None:
        from driftline.events import StepDone, StepsPlanned, StepStarted, Working

        if isinstance(event, StepsPlanned):
            self.expect(event.count)
        elif isinstance(event, StepStarted):
            self.started(event.name)
        elif isinstance(event, StepDone):
            self.finished(event.name, event.outcome)
            if self._bar:
                self.say(f"{event.name}: {event.outcome}")
        elif isinstance(event, Working):
            self._working(f"{event.part}: {event.words}")

    def _working(self, words: str) -> None:
        """Show the current activity beside the bar, or print it at intervals where there is no terminal."""
        now = time.monotonic()
        if self._bar:
            self.show(words)
        elif now - self._last_line >= LINE_EVERY:
            self._last_line = now
            progress_line(words)


class RunProgress(Ticker):
    """A listener of a run of models: a step for each model on each framework."""

    def __call__(self, event: Event) -> None:
        from driftline.events import BugSeen, ModelsMeasured, RunPlanned, Working

        if isinstance(event, RunPlanned):
            self.expect(event.pairs)
            for one in event.skipped:
                self.say(f"skipped {one.target}: {one.reason}")
            if event.resumed:
                self.say(f"{event.resumed} pairs of a model and a framework were measured before")
        elif isinstance(event, ModelsMeasured):
            self.advance(event.models, f"{event.framework}: {event.words}")
        elif isinstance(event, Working):
            self.show(f"{event.part}: {event.words}")
        elif isinstance(event, BugSeen) and event.new:
            self.say(new_bug_line(event.bug, event.how))


class ReductionProgress:
    """A listener of a reduction that shows the size over time: one live line on a terminal, otherwise a line for each
    step.
    """

    def __init__(self) -> None:
        self._status: Any = None
        if on_terminal():
            from driftline.report.screen import Screen

            self._status = Screen(stderr=True).status("Reducing ...")
            self._status.start()

    def __call__(self, event: Event) -> None:
        from driftline.events import Shrunk

        if isinstance(event, Shrunk):
            line = f"{event.seconds:6.1f} s  {event.queries:4d} asked  {event.size}  ({event.step})"
            if self._status:
                self._status.update(f"Reducing: {line}")
            else:
                progress_line(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()


def note_releases(event: Event) -> None:
    """Print each release of a bisection with its answer, and a line when a release is installed."""
    from driftline.events import ReleaseAsked, Working

    if isinstance(event, Working):
        progress_line(event.words)
    elif isinstance(event, ReleaseAsked):
        progress_line(f"{event.release}: {event.answer} ({event.seconds:.0f} s)")


class Activity:
    """A listener of work with a time budget: a bar on a terminal, otherwise a line at intervals."""

    def __init__(self, title: str, seconds: float) -> None:
        self._began = time.monotonic()
        self._last = 0.0
        self._bar: Any = None
        self._words = title
        self._new: set[str] = set()
        self._over = threading.Event()
        if on_terminal():
            self._bar = _drawn(counted=False)
            self._task = self._bar.add_task(title, total=seconds, now="")
            self._bar.start()

    def __call__(self, event: Event) -> None:
        """Handle an event. New bugs stay on the screen; the current activity is replaced by the next one."""
        from driftline.events import AuditStarted, BugSeen, NotExplained, OutOfReach, Shrunk, Working

        if isinstance(event, AuditStarted):
            self._go_on(event.spent, event.seconds)
        elif isinstance(event, Working):
            self._now(f"{event.part}: {event.words}" if event.words else event.part)
        elif isinstance(event, Shrunk):
            self._now(f"reduce: {event.size} ({event.step})")
        elif isinstance(event, OutOfReach):
            self._now(f"out of reach of ordinary code: {event.rule}, {event.mutation}")
        elif isinstance(event, BugSeen):
            self._bug(event)
        elif isinstance(event, NotExplained):
            self._keep(f"driftline: {event.bug}: {event.reason}", progress=False)

    def _go_on(self, spent: float, seconds: float) -> None:
        """Count the time of resumed work from its original start."""
        self._began = time.monotonic() - spent
        if self._bar:
            self._bar.update(self._task, total=seconds, completed=spent)

    def _bug(self, event: BugSeen) -> None:
        if event.new:
            self._new.add(event.bug.id)
            self._keep(new_bug_line(event.bug, event.how))

    def so_far(self) -> str:
        """Return a sentence on the bugs that interrupted work added to the store."""
        if not self._new:
            return "No new bug so far."
        return f"New bugs so far: {', '.join(sorted(self._new))}."

    def _keep(self, line: str, *, progress: bool = True) -> None:
        if self._bar:
            self._bar.console.print(line, highlight=False, markup=False)
        elif progress:
            progress_line(line)
        else:
            note(line)

    def beat(self, seconds: float = 30.0) -> Self:
        """Print a line at intervals while the work goes on, for steps that last minutes without an event."""
        if not self._bar:
            threading.Thread(target=self._beats, args=(seconds,), daemon=True).start()
        return self

    def _beats(self, seconds: float) -> None:
        while not self._over.wait(seconds):
            progress_line(f"[{time.monotonic() - self._began:.0f} s] {self._words} ...")

    def _now(self, words: str) -> None:
        self._words = words
        elapsed = time.monotonic() - self._began
        if self._bar:
            self._bar.update(self._task, completed=elapsed, now=words)
        elif elapsed - self._last >= LINE_EVERY or not self._last:
            self._last = elapsed
            progress_line(f"[{elapsed:.0f} s] {words}")

    def __enter__(self) -> Activity:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._bar:
            self._bar.stop()
