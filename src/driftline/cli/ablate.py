"""`driftline ablate`."""

from __future__ import annotations

from typing import Any

import click

from driftline.cli.common import json_option, print_json
from driftline.cli.explaining import Explaining, ExplainOptions, explaining_options
from driftline.core.text import first_line


@click.command()
@explaining_options(budget="3m")
@json_option
def ablate(as_json: bool, given: ExplainOptions) -> int:
    """Find the options, passes and rewrite rules without which a bug is gone.

    BUG is a name from `driftline bugs list`, CASE the id of one of its cases. A PROGRAM (model.onnx, model.pt2,
    file.py:name) is checked first and must fail on the target.

    \b
      driftline ablate inductor-1f3a
      driftline ablate model.onnx --target onnxruntime --budget 10m

    Rewrite rules, passes and lowerings that the compiler uses on this program are left out by name, half of them at a
    time, down to the smallest set that makes it pass; options are set to plainer values one by one. Every result is
    asked again in a fresh process, and is itself a target. Of a bug that is right but slow, what makes it fast is
    found, by measuring. Exit code 1: it fails; what it depends on is kept with the bug.
    """
    from driftline.report.results import SCHEMA

    with Explaining("Ablating", given) as asked:
        found = asked.bench.ablate(asked.failing, seconds=asked.seconds, listener=asked.progress())
    if as_json:
        print_json({"schema": SCHEMA, **found.body})
    else:
        show_ablation(found.body)
    return asked.exit_code(found.ablation.internal_errors)


def show_ablation(body: dict[str, Any]) -> None:
    from driftline.report.words import sentence

    click.echo(f"{body['bug']} on {body['target']}: {body['queries']} asked, {body['seconds']:.0f} s")
    for cure in body["cures"]:
        sure = "" if cure["confirmed"] else "  (not in a fresh process: do not rely on it)"
        click.echo(f"\n{cure['sentence']}{sure}")
        for knob in cure["knobs"]:
            if knob["about"]:
                click.echo(f"  {knob['kind']} {knob['name']}: {knob['about']}")
        click.echo(f"  again: {cure['command']}")
    if body["harmless"]:
        click.echo(f"\nNo difference: {', '.join(body['harmless'])}")
    for other in body["unclear"]:
        click.echo(f"With {other['name']} it ends otherwise: {first_line(other['reason'], 150)}")
    if body["note"]:
        click.echo(f"\n{sentence(body['note'])}")
