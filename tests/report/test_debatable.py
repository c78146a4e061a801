"""Bugs of which opinions differ come after the plain ones, and are not shown as the clearest."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

from rich.console import Console

from driftline.report.gather import _rank
from driftline.report.hunts import _show_clearest
from driftline.report.view import BugView, ShortestForm


def bug(name: str, severity: int, *, debatable: bool) -> BugView:
    made: Any = SimpleNamespace(
        id=name, compiler="c", group="open", debatable=debatable, severity=severity, sightings=1, title=name,
        shortest=ShortestForm("x = 1", None), script="x = 1",
        mismatch=None, reason="wrong", replay=f"driftline replay {name}",
        failed_runs=(2, 2), others={}, causes=(), certain=True, spelled=("abs",),
    )  # fmt: skip
    return cast(BugView, made)


def test_debatable_bug_is_listed_last_and_never_the_clearest() -> None:
    bugs = [bug("opinion", 1, debatable=True), bug("plain", 5, debatable=False)]
    assert [one.id for one in sorted(bugs, key=_rank)] == ["plain", "opinion"]
    for shown, words in ((bugs, "plain"), (bugs[:1], "")):
        out = Console(file=io.StringIO())
        _show_clearest(out, shown)
        told = cast(io.StringIO, out.file).getvalue()
        assert words in told and "opinion" not in told
        assert bool(words) == ("The clearest one" in told)
