"""Known defects of TVM's schedule primitives (`known_defects.toml`), each with a schedule that shows it and a similar
one that is right.

Defects annotate bugs that a hunt finds, and never identify or hide one. A defect explains a failing step if primitive
and message match; a build error if the message matches and the failing steps contain all steps of the defect's
schedule; a crash if the steps are equal; a wrong result if the steps are equal and the function is of the same kind.
The files of `causes/` are not used, since their example programs are programs of frameworks, not schedules.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftline.core.execution import Stage
from driftline.core.verdict import Kind
from driftline.schedules.functions import function_of
from driftline.schedules.trace import LoopAt, ScheduleStep, Trace

FILE = Path(__file__).with_name("known_defects.toml")
SEEN = "0.27.0.post1"


@dataclass(frozen=True)
class ScheduleDefect:
    """A known defect: how it shows, the smallest schedule that shows it (`witness`), and a right one (`neighbour`)."""

    name: str
    title: str
    kind: Kind
    witness: Trace
    neighbour: Trace
    message: str = ""  # a regular expression; numbers are written as #
    stage: Stage = Stage.SCHEDULE
    seen: str = SEEN  # release of TVM

    def explains(self, trace: Trace, kind: str, stage: str, message: str) -> bool:
        """True if the defect explains a failure that was reduced to this trace."""
        if (kind, stage) != (self.kind, self.stage) or not trace.steps:
            return False
        if self.message:
            same = trace.primitives[-1] == self.witness.primitives[-1]
            if self.stage == Stage.COMPILE:
                same = same and _in_this_order(self.witness.primitives, trace.primitives)
            return same and re.search(self.message, message) is not None
        same_function = self.kind == Kind.CRASH or function_of(trace).kind == function_of(self.witness).kind
        return same_function and trace.primitives == self.witness.primitives


def _in_this_order(few: tuple[str, ...], many: tuple[str, ...]) -> bool:
    """True if `many` contains all of `few` in the same order."""
    left = iter(many)
    return all(one in left for one in few)


def defect_of(trace: Trace, kind: str, stage: str, message: str) -> ScheduleDefect | None:
    """Return the known defect that explains a reduced failure, or None."""
    return next((one for one in DEFECTS if one.explains(trace, kind, stage, message)), None)


def _read(row: Mapping[str, Any]) -> ScheduleDefect:
    return ScheduleDefect(
        row["name"],
        row["title"],
        Kind(row["kind"]),
        _read_trace(row["witness"]),
        _read_trace(row["neighbour"]),
        row.get("message", ""),
        Stage(row.get("stage", Stage.SCHEDULE)),
        row.get("seen", SEEN),
    )


def _read_trace(row: Mapping[str, Any]) -> Trace:
    return Trace(row["function"], row["sizes"], tuple(map(_read_step, row["steps"])))


def _read_step(text: str) -> ScheduleStep:
    """Read a step such as `compute_at P at=Y:1 by=0,-1 word=global`; `none` stands for a number that is left open."""
    primitive, *words = text.split()
    named = dict(word.split("=", 1) for word in words if "=" in word)
    loops = (part.split(":") for part in named.get("at", "").split(",") if part)
    numbers = (part for part in named.get("by", "").split(",") if part)
    return ScheduleStep(
        primitive,
        tuple(word for word in words if "=" not in word),
        tuple(LoopAt(block, int(index)) for block, index in loops),
        tuple(None if number == "none" else int(number) for number in numbers),
        named.get("word", ""),
    )


DEFECTS = tuple(map(_read, tomllib.loads(FILE.read_text(encoding="utf-8"))["defects"]))
