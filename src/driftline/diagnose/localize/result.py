"""What a localisation tells: the rungs of the ladder, and the suspects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from driftline.checking.checker import TargetResult
from driftline.core.case import Case
from driftline.core.target import Target
from driftline.diagnose.localize.ladder import Rung
from driftline.diagnose.reduce.graph import ValueType


@dataclass(frozen=True)
class PlacedOperator:
    """One operator of a suspect, and where it stands in the program."""

    op: str
    place: int  # among the operators of the program, from 0
    inputs: tuple[ValueType, ...]
    outputs: tuple[ValueType, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "op": self.op,
            "place": self.place,
            "inputs": [_type_text(kind) for kind in self.inputs],
            "outputs": [_type_text(kind) for kind in self.outputs],
        }


def _type_text(kind: ValueType) -> str:
    strided = f" strides {list(kind.strides)}" if kind.strides else ""
    return f"{kind.dtype}{list(kind.shape)}{strided}"


@dataclass(frozen=True)
class SuspectPart:
    """Operators that fail by themselves, on what the reference run computes before them."""

    operators: tuple[PlacedOperator, ...]
    case: Case
    result: TargetResult
    alike: int = 0  # further operators of the same kind without which the rest passes
    rest: str = ""  # what the program without it does: an `Answer`, or nothing where it was not asked

    @property
    def title(self) -> str:
        return " + ".join(operator.op for operator in self.operators)


@dataclass(frozen=True)
class Localization:
    """Where a case goes wrong, as far as it was found out."""

    target: Target  # the rung on which parts were asked
    rungs: tuple[Rung, ...] = ()
    suspects: tuple[SuspectPart, ...] = ()
    form: str = ""  # what was taken apart
    operators: int = 0
    lone: bool = False  # the first suspect was found by asking single operators, before anything else
    explained: bool = False  # without the suspects the program passes
    observer: str = ""  # what changes when every value is an output
    note: str = ""  # why there is no more
    queries: int = 0
    seconds: float = 0.0
    internal_errors: tuple[str, ...] = ()
