"""`driftline localize`."""

from __future__ import annotations

from typing import Any

import click

from driftline.cli.common import json_option, print_json
from driftline.cli.explaining import Explaining, ExplainOptions, explaining_options


@click.command()
@explaining_options(budget="3m")
@json_option
def localize(as_json: bool, given: ExplainOptions) -> int:
    """Find the operators of a failing program that fail by themselves.

    BUG is a name from `driftline bugs list`, CASE the id of one of its cases. A PROGRAM (model.onnx, model.pt2,
    file.py:name) is checked first and must fail on the target.

    \b
      driftline localize inductor-1f3a
      driftline localize model.onnx --target onnxruntime --budget 10m

    First the ladder: simpler forms of the same compiler, up to the first that is wrong. Then the program is halved,
    each part compiled alone and fed with the values of the reference run, down to the smallest that still fails; and
    the program without it is asked too. Exit code 1: it fails; the suspects are kept with the bug.
    """
    from driftline.report.results import SCHEMA

    with Explaining("Localising", given) as asked:
        found = asked.bench.localize(asked.failing, seconds=asked.seconds, listener=asked.progress())
    if as_json:
        print_json({"schema": SCHEMA, **found.body})
    else:
        show_localization(found.body)
    return asked.exit_code(found.localization.internal_errors)


_WORDS = {"same": "wrong", "pass": "right", "other": "fails otherwise", "neither": "cannot tell"}
_REST = {"pass": "without it the program passes", "same": "without it the program still fails"}


def show_localization(body: dict[str, Any]) -> None:
    from driftline.report import words

    ladder = ", ".join(f"{rung['target']} {_WORDS[rung['answer']]}" for rung in body["ladder"])
    click.echo(f"{body['bug']}: {ladder}")
    if body["form"]:
        size = words.plural(body["operators"], "operator")
        click.echo(f"{body['form']}, {size}; {body['queries']} asked, {body['seconds']:.0f} s")
    for number, suspect in enumerate(body["suspects"], 1):
        places = words.places(suspect["operators"], body["operators"])
        alike = f" (and {suspect['alike']} more of its kind)" if suspect["alike"] else ""
        click.echo(f"\nSuspect {number}: {suspect['title']}{alike}, {places}")
        click.echo(f"  alone it fails: {suspect['verdict']['reason']}")
        for operator in suspect["operators"]:
            read, made = ", ".join(operator["inputs"]), ", ".join(operator["outputs"])
            click.echo(f"  {operator['op']}: {read} -> {made}")
        click.echo(f"  {_REST.get(suspect['rest'], 'what the program does without it is not known')}")
        click.echo(f"  again: {suspect['command']}")
    for fact in (body["observer"], body["note"]):
        if fact:
            click.echo(f"\n{words.sentence(fact)}")
