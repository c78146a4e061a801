"""`driftline env`: other versions of a compiler, each in an environment of its own."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from driftline.cli.common import json_option, note, print_json, progress_line

if TYPE_CHECKING:
    from driftline.execute.environments import Environment


@click.group()
def env() -> None:
    """Other versions of a compiler, to run as targets such as onnxruntime@1.15.1."""


@env.command()
@click.argument("requirement")
@click.option("--with", "extras", multiple=True, metavar="REQ", help="Another requirement to install beside it.")
@json_option
def add(requirement: str, extras: tuple[str, ...], as_json: bool) -> None:
    """Install a release, as in: driftline env add onnxruntime==1.15.1"""
    from driftline.execute.environments import add_environment

    environment = add_environment(requirement, extras, progress_line)
    if as_json:
        print_json({"schema": 1, "environment": _describe(environment)})
    else:
        note(f"{environment.requirement} is ready: use it as a target with @{environment.version}")


@env.command("list")
@json_option
def list_(as_json: bool) -> None:
    """The environments that have been made."""
    from driftline.execute.environments import list_environments

    entries = [_describe(environment) for environment in list_environments()]
    if as_json:
        print_json({"schema": 1, "environments": entries})
    elif entries:
        _print_table(entries)
    else:
        note("No environments yet. Make one with: driftline env add onnxruntime==1.15.1")


@env.command()
@click.argument("requirement")
@json_option
def remove(requirement: str, as_json: bool) -> None:
    """Delete an environment, as in: driftline env remove onnxruntime==1.15.1"""
    from driftline.execute.environments import remove_environment

    remove_environment(requirement)
    if as_json:
        print_json({"schema": 1, "removed": requirement})
    else:
        note(f"{requirement} is removed")


def _describe(environment: Environment) -> dict[str, Any]:
    from driftline.execute.environments import folder_size

    fields = asdict(environment)
    return {
        "requirement": environment.requirement,
        "path": environment.path,
        "extras": list(environment.extras),
        "size_bytes": folder_size(environment.path),
        "made": fields["made"],
    }


def _print_table(entries: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from driftline.report.screen import console

    table = Table("release", "with", "size", "made", box=None, pad_edge=False, header_style="dim")
    for entry in entries:
        size = f"{entry['size_bytes'] / 1e6:,.0f} MB"
        table.add_row(entry["requirement"], ", ".join(entry["extras"]), size, entry["made"].replace("T", " "))
    console().print(table)
