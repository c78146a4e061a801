"""`driftline bisect`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.common import json_option, plugin_option, print_json, store_option, trust_option
from driftline.cli.completing import complete_subject, complete_targets
from driftline.cli.explaining import failing_for, opened
from driftline.cli.filled import filled
from driftline.core.errors import DriftlineError
from driftline.report.progress import note_releases

if TYPE_CHECKING:
    from driftline.campaign.explain.bisection import Bisected


@dataclass(frozen=True)
class _BisectOptions:
    """The options of `driftline bisect` that say which releases to ask."""

    target: str | None
    package: str
    good: str
    bad: str
    releases: str
    installed: bool
    keep: bool
    max_download: str


@click.command()
@click.argument("subject", metavar="BUG|CASE|PROGRAM", shell_complete=complete_subject)
@click.option(
    "--target",
    metavar="TARGET",
    shell_complete=complete_targets,
    help="The target of a PROGRAM; of a bug, another than its own.",
)
@click.option("--package", default="", help="Whose releases to ask; default: the package of the failing compiler.")
@click.option(
    "--good", default="", metavar="VERSION", help="A release that is right; the search stays between the two."
)
@click.option("--bad", default="", metavar="VERSION", help="A release that is wrong; default: the one that was seen.")
@click.option("--releases", default="", metavar="V,V,...", help="Ask among these only, instead of all that install.")
@click.option("--installed", is_flag=True, help="Ask only releases that are here already; download nothing.")
@click.option("--keep", is_flag=True, help="Keep the environments that are made; without it they are removed again.")
@click.option("--max-download", default="1GB", show_default=True, help="A release that is larger is not asked.")
@store_option
@plugin_option
@trust_option
@json_option
@filled(_BisectOptions)
def bisect(subject: str, asked: _BisectOptions, store: Path, plugins: tuple[str, ...], as_json: bool) -> int:
    """Find the releases of a compiler that show a bug: the first bad one, the first good one again.

    BUG is a name from `driftline bugs list`, CASE the id of one of its cases. A PROGRAM (model.onnx, model.pt2,
    file.py:name) is checked first and must fail on the target.

    \b
      driftline bisect onnxruntime-1f3a
      driftline bisect model.onnx --target onnxruntime --installed
      driftline bisect openvino-77b0 --package openvino --good 2023.0.0
      driftline bisect inductor-20c1 --good 2.13.0 --bad 2.11.0

    Releases that are installed already are asked first, then the oldest and the newest, then the middle of every
    stretch whose ends differ. Each runs in an environment of its own; the reference stays that of the framework
    installed here. A release that cannot run the case says nothing (skip). A bug that is right but slow is measured in
    each, against the baseline that is installed here. Exit code 1: at least one release shows it.
    """
    from driftline.campaign.explain.bisection import parse_releases
    from driftline.report.results import SCHEMA

    size = parse_size(asked.max_download)
    with opened(subject, store, plugins) as bench:
        bisected = bench.bisect(
            failing_for(bench, subject, target=asked.target),
            package=asked.package,
            good=asked.good,
            bad=asked.bad,
            releases=parse_releases(asked.releases),
            installed=asked.installed,
            keep=asked.keep,
            max_download=size,
            listener=note_releases,
        )
    if as_json:
        print_json({"schema": SCHEMA, **bisected.to_json()})
    else:
        _show(bisected)
    return 1 if bisected.search.ranges else 0


def parse_size(text: str) -> int:
    """Bytes from 500MB or 4GB."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([MG])B?", text.strip(), re.IGNORECASE)
    if not match:
        raise DriftlineError(f"--max-download {text}: write a size such as 500MB or 4GB.")
    return int(float(match[1]) * {"M": 1e6, "G": 1e9}[match[2].upper()])


def _show(bisected: Bisected) -> None:
    from rich.markup import escape

    from driftline.report.screen import console
    from driftline.report.worded_table import WordedTable

    colours = {"good": "green", "bad": "red", "skip": "yellow"}
    columns = (bisected.package, "answer", "seconds", "why")
    table = WordedTable(columns, words="why", right=("seconds",), header_style="dim")
    for trial in bisected.in_order:
        answer = f"[{colours[trial.answer]}]{trial.answer}[/]"
        table.add(escape(trial.release), answer, f"{trial.seconds:.0f}", escape(trial.reason))
    table.print(console())
    existing = len(bisected.search.existing)
    asked = f" ({len(bisected.trials)} of {existing} releases asked)" if existing else ""
    click.echo(f"\n{bisected.failing.bug.id}: {bisected.search.summary()}.{asked}")
