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
from driftline.core.target import Target
from driftline.core.verdict import Judgement

# What a script compiles with: torch.compile, Module.compile, torch._dynamo.optimize, torch.export, torch.jit,
# AOTInductor, ONNX Runtime.
_COMPILES = re.compile(
    rb"\bcompile\b|_dynamo\b.*\boptimize\b|torch\.(export|jit|onnx)\b|from torch import .*\b(export|jit|onnx)\b"
    rb"|\baoti_(compile_and_package|load_package)\b|\bInferenceSession\b"
)
# The options of `check` that a script takes; --trust and --plugin have done their work when this runs.
_TAKEN = ("program", "targets", "timeout", "memory", "seed", "as_json", "fail_on", "jobs", "store", "trust", "plugins")


@dataclass(frozen=True)
class ScriptCheck:
    """What was asked of a script on the command line."""

    program: str
    targets: Sequence[Target]  # none: the script's own backend
    fail_on: Sequence[Judgement]
    timeout: float
    memory: int  # GiB
    seed: int
    as_json: bool


def is_script(program: str) -> bool:
    """True for a Python file, named without a function, whose text names an entry point."""
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


def check_script(asked: ScriptCheck) -> int:
    """Judge a script on each target, print the result, and return the exit code."""
    from driftline.execute.pool import Pool
    from driftline.report.progress import Ticker
    from driftline.report.scenario import script_json, show_script, was_compared
    from driftline.scenarios.judge import judge_script, play_eagerly
    from driftline.scenarios.runs import ScriptOptions, require_script_target
    from driftline.scenarios.script import read_script

    for target in asked.targets:
        require_script_target(target)
    script = read_script(Path(asked.program))
    options = ScriptOptions(asked.timeout, asked.memory << 30, asked.seed)
    wanted: list[Target | None] = [*asked.targets] or [None]
    results = []
    with Pool() as pool, Ticker(f"Checking {script.name}", len(wanted)) as progress:
        eagerly = play_eagerly(script, pool, options, wanted[0], progress.show)
        for one in wanted:
            result = judge_script(script, eagerly, pool, options, one, progress.show)
            progress.finished(result.target, str(result.judgement))
            results.append(result)
    if asked.as_json:
        print_json(script_json(results))
    else:
        show_script(results)
    if any(result.judgement in asked.fail_on for result in results):
        return 1
    return 0 if was_compared(results) else NOTHING_COMPARED
