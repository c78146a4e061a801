"""`driftline diagnose`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.cause_options import causes_option, library_of
from driftline.cli.common import json_option, print_json, tell_failed
from driftline.cli.explaining import Explaining, ExplainOptions, explaining_options
from driftline.core.closing import closing_step

if TYPE_CHECKING:
    from driftline.causes import Cause


@click.command()
@explaining_options(budget="5m")
@click.option("--bisect", is_flag=True, help="Also ask other releases of the compiler; makes environments of them.")
@causes_option
@json_option
def diagnose(as_json: bool, bisect: bool, folders: tuple[Path, ...], given: ExplainOptions) -> int:
    """Explain a bug: where it lies, how small it gets, and what it depends on.

    BUG is a name from `driftline bugs list`, CASE the id of one of its cases. A PROGRAM (model.onnx, model.pt2,
    file.py:name) is checked first and must fail on the target.

    \b
      driftline diagnose inductor-1f3a
      driftline diagnose model.onnx --target onnxruntime --budget 10m

    It localises, reduces and ablates, each step on what the one before it left, and asks other releases where their
    environments are there (driftline env list) or --bisect is given. A bug that is right but slow is reduced to what is
    slow, and ablated to what makes it fast. Exit code 1: it fails; the explanation is kept with the bug and stands in
    its report.
    """
    from driftline.report.annotated import causes_of
    from driftline.report.diagnosis import show_diagnosis
    from driftline.report.results import SCHEMA

    library = library_of(folders)
    with Explaining("Diagnosing", given, library) as asked:
        found = asked.bench.diagnose(asked.failing, seconds=asked.seconds, bisect=bisect, listener=asked.progress())
        causes: Sequence[Cause] = ()
        with closing_step(found.failed_steps, "naming the causes", "the explanation is shown without them"):
            causes = causes_of(asked.bench.store.bug(asked.failing.bug.id), library)
    body = found.to_json()
    with closing_step(found.failed_steps, "showing the explanation", "it is kept with the bug"):
        if as_json:
            print_json({"schema": SCHEMA, **body, "causes": [cause.note() for cause in causes]})
        else:
            show_diagnosis(body, causes)
    tell_failed(found.failed_steps)
    return asked.exit_code(found.internal_errors)
