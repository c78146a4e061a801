"""Print the stored explanation of a bug."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from driftline.causes import Cause
from driftline.report.annotated import words_of
from driftline.report.program import reduced_text


def show_diagnosis(body: dict[str, Any], causes: Sequence[Cause] = ()) -> None:
    """Print the explanation of one bug: summary, causes, reduced program, and commands that reproduce the findings."""
    click.echo(f"{body['bug']} on {body['target']}, explained in {body['seconds']:.0f} s")
    for sentence in body["summary"]:
        click.echo(f"  {sentence}")
    for cause in causes:
        click.echo(f"  {words_of(cause)}")
    if body["reduction"]:
        click.echo(f"\n{reduced_text(body['reduction'])}")
        for other in body["reduction"].get("others", ()):
            click.echo(f"\nMet on the way, and kept as a bug of its own: {other}")
    again = list(_again(body))
    if again:
        click.echo("\nAgain:")
    for command, shows in again:
        click.echo(f"  {command}  # {shows}")


def show_diagnoses(bodies: list[dict[str, Any]]) -> None:
    for body in bodies:
        click.echo()
        show_diagnosis(body)


def _again(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the commands that reproduce the explanation, each with what running the command shows."""
    for suspect in (body["localization"] or {}).get("suspects", ()):
        yield suspect["command"], f"the suspect alone, {suspect['title']}: fails"
    asked = "the reduced program" if body["reduction"] else "the program that was found"
    for cure in (body["ablation"] or {}).get("cures", ()):
        if cure["confirmed"]:
            yield cure["command"], f"{asked} with this cure: passes"
    for cure in body["on_original"]:
        passes = "passes" if cure["answer"] == "pass" else "does not pass"
        yield cure["command"], f"the program that was found, with this cure: {passes}"
