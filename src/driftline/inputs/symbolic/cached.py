"""A file of solver answers by slice. Solving takes seconds, and the same layers are searched repeatedly."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from driftline.inputs.symbolic.answers import SolverOutcome

VERSION = 1  # increase when answers may change
MOST = 20_000  # answers that are kept

KnownAnswers = dict[str, tuple[str, str, list[float]]]  # outcome, step, and the variables in order


def read_answers(path: Path) -> KnownAnswers:
    """Read the stored answers. A file that is missing, damaged or of another version gives an empty dict."""
    try:
        held = json.loads(path.read_text())
        if held["version"] != VERSION:
            return {}
        known: KnownAnswers = {}
        for key, (outcome, step, numbers) in held["answers"].items():
            values = [float(number) for number in numbers]
            if all(map(math.isfinite, values)):
                known[str(key)] = (str(SolverOutcome(outcome)), str(step), values)
        return known
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def write_answers(path: Path, known: Mapping[str, tuple[str, str, list[float]]]) -> None:
    """Write the newest answers atomically, since another process may read the file at the same time."""
    newest = dict(list(known.items())[-MOST:])
    scratch = path.with_name(f"{path.name}.new")
    scratch.write_text(json.dumps({"version": VERSION, "answers": newest}))
    scratch.replace(path)
