"""`driftline models`: the corpus of real architectures."""

from __future__ import annotations

from pathlib import Path

import click

from driftline.cli.common import json_option, note, print_json
from driftline.cli.completing import complete_models
from driftline.models import CATALOGUE, FAMILIES, find


@click.group()
def models() -> None:
    """Real architectures with seeded weights: list them, or write one to a file.

    \b
    Nothing is downloaded, and every machine builds the same bits:
      driftline models list --family decoder
      driftline check model:llama --targets inductor,onnxruntime
      driftline models export bert --as onnx --exporter torchscript --opset 14
    """


@models.command("list")
@click.option("--family", type=click.Choice(FAMILIES), help="Only one family.")
@json_option
def list_models(family: str | None, as_json: bool) -> None:
    """List the models with their family, type, size and what they are."""
    found = [entry for entry in CATALOGUE.values() if family in (None, entry.family)]
    if as_json:
        from driftline.report.results import SCHEMA

        print_json({"schema": SCHEMA, "models": [entry.to_json() for entry in found]})
        return
    rows = [("model", "family", "dtype", "size", "what it is")]
    rows += [(e.name, e.family, e.dtype, e.size, e.description) for e in found]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        click.echo("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]))
    note(f"{len(found)} models. Check one with: driftline check model:{found[0].name}")


@models.command()
@click.argument("name", shell_complete=complete_models)
@click.option("--as", "form", type=click.Choice(["pt2", "onnx"]), required=True, help="The kind of file.")
@click.option(
    "--exporter",
    type=click.Choice(["dynamo", "torchscript"]),
    default="dynamo",
    show_default=True,
    help="Which exporter of torch writes the ONNX file. At opset 14 the second writes what optimum writes.",
)
@click.option("--opset", type=click.IntRange(7), help="ONNX opset; default: 18 for dynamo, 14 for torchscript.")
@click.option(
    "--dynamic/--static",
    default=None,
    help="Named axes (batch, sequence) in place of fixed sizes. Default: dynamic for torchscript, static for dynamo.",
)
@click.option("--out", type=click.Path(path_type=Path), help="The file to write; default: NAME.pt2 or NAME.onnx.")
def export(name: str, form: str, exporter: str, opset: int | None, dynamic: bool | None, out: Path | None) -> None:
    """Write a model to a file that any tool can read."""
    find(name).require_packages()
    from driftline.models.files import write_model

    path = out or Path(f"{name}.{form}")
    told = write_model(name, form, path, exporter=exporter, opset=opset, dynamic=dynamic)
    click.echo(f"{path}: {told}", err=True)
