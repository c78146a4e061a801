"""`driftline check --layers`: looking and showing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from driftline.cli.common import Activity
from driftline.core.errors import DriftlineError

if TYPE_CHECKING:
    from driftline.checking.result import CheckResult
    from driftline.workbench import Workbench

EXPECTED = 30.0  # seconds for one target


def require_layers(option: str, *, layers: bool) -> None:
    """An option of the view that was typed without the view would do nothing."""
    typed = click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE
    if typed and not layers:
        raise DriftlineError(f"--{option} chooses what --layers looks at; add --layers, or leave --{option} out.")


def look_layers(bench: Workbench, result: CheckResult, taps: str) -> list[dict[str, Any]]:
    with Activity("Looking at layers", EXPECTED * max(1, len(result.results))) as progress:
        return bench.look_inside(result, taps=taps, listener=progress)


def show_views(views: Sequence[dict[str, Any]]) -> None:
    from driftline.report.layer_table import show_layers
    from driftline.report.screen import console

    out = console()
    for body in views:
        show_layers(out, body)
