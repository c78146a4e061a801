"""`driftline check repro.py`: a script that calls `torch.compile`, or another entry point of compilers, itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from driftline.cli.common import print_json
from driftline.core.errors import NOTHING_COMPARED, DriftlineError
from driftline.core.verdict import Judgement

# What a script compiles with: torch.compile, Module.compile, torch._dynamo.optimize, torch.export, torch.jit,
# AOTInductor, ONNX Runtime.
_COMPILES = re.compile(
    rb"\bcompile\b|_dynamo\b.*\boptimize\b|torch\.(export|jit|onnx)\b|from torch import .*\b(export|jit|onnx)\b"
    rb"|\baoti_(compile_and_package|load_package)\b|\bInferenceSession\b"
)
# The options of `check` that a script takes; --trust and --plugin have done their work when this runs.
_TAKEN = (
    "program",
    "targets",
    "timeout",
    "memory",
    "seed",
    "as_json",
    "fail_on",
    "jobs",
    "store",
    "trust",
    "plugins",
    "diagnose",
)


@dataclass(frozen=True)
class ScriptOrder:
    """The check of a script as the command line describes it."""

    program: str
    targets: str | None  # None: the script's own backend
    fail_on: Sequence[Judgement]
    timeout: float
    memory: int  # GiB
    seed: int
    store: Path
    as_json: bool
    diagnose: bool


def is_script(program: str) -> bool:
    """True for a Python file, named without a function, whose text names an entry point, and for a function that takes
    `compile`."""
    if ".py:" in program:
        from driftline.scenarios.function import names_a_scenario

        return names_a_scenario(program)
    path = Path(program)
    if path.suffix != ".py" or not path.is_file():
        return False
    try:
        return bool(_COMPILES.search(path.read_bytes()))
    except OSError:
        return False


def refuse_other_options(context: click.Context) -> None:
    """Raise `DriftlineError` for an option on the command line that means nothing to a script."""
    for option in context.command.params:
        given = option.name and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
        if given and option.name not in _TAKEN:
            raise DriftlineError(
                f"{option.opts[0]} is for a program that Driftline calls. A script calls torch.compile itself and makes"
                f" its own inputs; without {option.opts[0]} it is judged as it stands."
            )


def check_script(order: ScriptOrder) -> int:
    """Judge a script on each target, print the result, and return the exit code."""
    from driftline.campaign.check.scripts import ScriptSettings
    from driftline.campaign.explain.explanations import ExplainedBugs
    from driftline.cli.explaining import explain
    from driftline.report.diagnosis import show_diagnoses
    from driftline.report.progress import StepProgress
    from driftline.report.scenario import script_json, show_script
    from driftline.scenarios.function import read_program
    from driftline.workbench import Workbench

    targets = None if order.targets is None else [order.targets]
    asked = ScriptSettings(targets, order.timeout, order.memory, order.seed)
    script = read_program(order.program)  # what is mistyped is refused before a store is made for it
    with Workbench(order.store) as bench:
        with StepProgress(f"Checking {script.name}") as progress:
            found = bench.check_script(order.program, listener=progress, **vars(asked))
        bugs = [bug.id for bug in found.bugs.values()]
        explained = explain(bugs, bench) if order.diagnose else ExplainedBugs()
    if order.as_json:
        print_json({**script_json(found), **explained.to_json()})
    else:
        show_script(found)
        show_diagnoses(explained.bodies)
    if any(result.judgement in order.fail_on for result in found.results):
        return 1
    return 0 if found.compared else NOTHING_COMPARED
