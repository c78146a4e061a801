"""Write the result of a round of `driftline watch`: Markdown for people (in the terminal too), JSON and JUnit for
machines.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from driftline.checking.result import Standing
from driftline.core.errors import DriftlineError
from driftline.core.output_place import require_place
from driftline.core.quoting import cell, code, markdown
from driftline.core.text import to_json
from driftline.report import formats, junit
from driftline.report.results import SCHEMA, replay_command
from driftline.report.words import plural

if TYPE_CHECKING:
    from driftline.campaign.hunt.watching import WatchResult

SUFFIXES = (".md", ".json", ".xml")
_TITLES = {
    Standing.NEW: "New",
    Standing.BACK: "Back",
    Standing.FIXED: "Fixed",
    Standing.STILL_FAILS: "Still failing",
    Standing.UNCLEAR: "Unclear",
}


def headline(watched: WatchResult) -> str:
    """Return one sentence that sums up the round."""
    releases = ", ".join(f"{name} {release}" for name, release in watched.releases.items())
    counts = {standing: len(watched.those(standing)) for standing in Standing}
    replayed = sum(counts.values()) - counts[Standing.NEW]
    unclear = f", {counts[Standing.UNCLEAR]} unclear" if counts[Standing.UNCLEAR] else ""
    programs = sum(watched.hunt.programs.values()) if watched.hunt else 0
    return (
        f"{releases}: {counts[Standing.NEW]} new, {counts[Standing.BACK]} back, {counts[Standing.FIXED]} fixed,"
        f" {counts[Standing.STILL_FAILS]} still failing{unclear} ({plural(replayed, 'known bug')} replayed,"
        f" {plural(programs, 'program')} hunted). {watched.not_hunted}".rstrip()
    )


def render_markdown(watched: WatchResult, store: Path) -> str:
    """Return the result of a round as Markdown, with a table for each group of bugs."""
    lines = ["# Driftline watch", "", markdown(headline(watched)), ""]
    for standing, title in _TITLES.items():
        bugs = watched.those(standing)
        if not bugs:
            continue
        lines += [f"## {title} ({len(bugs)})", "", "| bug | target | what | now | replay |", "|---|---|---|---|---|"]
        for one in bugs:
            command = code(f"{replay_command(one.bug.id, store)} --target {one.target}")
            lines.append(
                f"| {code(one.bug.id)} | {code(one.target)} | {cell(one.what)} | {cell(one.reason)} | {command} |"
            )
        lines.append("")
    return "\n".join(lines)


def render_json(watched: WatchResult) -> str:
    return to_json({"schema": SCHEMA, **watched.to_json()}, indent=1) + "\n"


def require_suffix(out: Path) -> None:
    """Raise if the suffix of `out` names no format, before the slow work starts."""
    if out.suffix not in SUFFIXES:
        raise DriftlineError(f"--out {out}: the name must end in {', '.join(SUFFIXES)}.")
    require_place(out, "watch.md")


def write(watched: WatchResult, store: Path, out: Path) -> None:
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    text = {
        ".md": lambda: render_markdown(watched, store),
        ".json": lambda: render_json(watched),
        ".xml": lambda: junit.render_watch(watched, made),
    }[out.suffix]()
    formats.write(out, text)
