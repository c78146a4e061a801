"""What commands share: options with one spelling, progress on stderr, JSON on stdout."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from driftline.cli.settings import settings_of_run
from driftline.core.config import default_store
from driftline.core.errors import DriftlineError
from driftline.core.text import to_json

if TYPE_CHECKING:
    from driftline.checking.checker import Skipped, TargetResult
    from driftline.core.target import Target
    from driftline.store import Bug

F = TypeVar("F", bound=Callable[..., Any])
_UNITS = {"s": 1, "m": 60, "h": 3600}


def store_option(function: F) -> F:
    return click.option(
        "--store",
        type=click.Path(path_type=Path, file_okay=False),
        default=_store_of_run,
        show_default="$DRIFTLINE_STORE, driftline.toml or .driftline",
        help="Folder that keeps what is found.",
    )(function)


def _store_of_run() -> Path:
    if "DRIFTLINE_STORE" in os.environ:
        return default_store()
    return settings_of_run("store").store or default_store()


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout; the schema is in docs/json.md.")(
        function
    )


def seed_option(function: F) -> F:
    return click.option(
        "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all random draws."
    )(function)


def plugin_option(function: F) -> F:
    return click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="FILE.py",
        help="Python file that registers further backends; may be repeated.",
    )(function)


def print_json(value: Any) -> None:
    click.echo(to_json(value, indent=1))


def note(line: str) -> None:
    """A line for people, out of the way of `--json`."""
    click.echo(line, err=True)


def new_bug_line(bug: Bug) -> str:
    """How a bug that the store did not know before is announced."""
    return f"new  {bug.id}  {bug.fingerprint.kind}: {bug.fingerprint.detail[:110]}"


def on_terminal() -> bool:
    """Can progress be drawn? Elsewhere it is told in plain lines."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class Ticker:
    """Progress over a number of steps, which may become known later: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, title: str, total: int | None = None) -> None:
        self._total = total
        self._done = 0
        self._running: list[str] = []
        self._bar: Any = None
        if on_terminal():
            from rich.console import Console
            from rich.markup import escape
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("[dim]{task.fields[now]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(escape(title), total=total, now="")
            self._bar.start()
        else:
            note(f"{title} ...")

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

    def say(self, line: str, *, kept: bool = True) -> None:
        """A line that stays: above the bar on a terminal. `kept` or not, it stands in a log."""
        if not self._bar:
            note(line)
        elif kept:
            self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def checked(self, target: Target, result: TargetResult | Skipped | None, expected: float | None = None) -> None:
        """The progress of a check: a target was started, and is `expected` to take long; or came to its result."""
        from driftline.report.terminal import row_line

        if result is None:
            self.started(str(target))
            if expected is not None:
                self.say(f"{target} usually takes about {expected:.0f} s for a program of this size")
            return
        line = row_line(result)
        self.finished(str(target), line)
        if self._bar:
            self.say(f"{target}: {line}")

    def __enter__(self) -> Ticker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()


class Activity:
    """Progress of work that is measured by its time: a bar on a terminal, a line now and then elsewhere."""

    LINE_EVERY = 10.0  # seconds

    def __init__(self, title: str, seconds: float) -> None:
        self._began = time.monotonic()
        self._last = 0.0
        self._bar: Any = None
        if on_terminal():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("[dim]{task.fields[now]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(title, total=seconds, now="")
            self._bar.start()

    def __call__(self, words: str) -> None:
        """What is going on. Words that begin with `new` are for keeping: they stay on the screen."""
        elapsed = time.monotonic() - self._began
        if words.startswith("new"):
            if self._bar:
                self._bar.console.print(words, highlight=False, markup=False)
            else:
                note(words)
        elif self._bar:
            self._bar.update(self._task, completed=elapsed, now=words)
        elif elapsed - self._last >= self.LINE_EVERY or not self._last:
            self._last = elapsed
            note(f"[{elapsed:.0f} s] {words}")

    def __enter__(self) -> Activity:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()


def parse_budget(text: str) -> float:
    """Seconds, from `90s`, `10m`, `1h` or `1h30m`."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", text)
    if not parts or "".join(a + b for a, b in parts) != text:
        raise DriftlineError(f"--budget {text}: write a time with its unit, such as 90s, 10m or 1h30m.")
    seconds = sum(float(amount) * _UNITS[unit] for amount, unit in parts)
    if not seconds:
        raise DriftlineError(f"--budget {text}: give it some time, such as 90s, 10m or 1h30m.")
    return seconds
