"""The result of a localisation: the rungs of the ladder, and the suspects."""

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
    """One operator of a suspect, with its position in the program."""

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
    """Operators that fail alone, on the values that the reference run has before them."""

    operators: tuple[PlacedOperator, ...]
    case: Case
    result: TargetResult
    alike: int = 0  # further operators of the same kind without which the rest passes
    rest: str = ""  # the answer of the program without it; empty if that was not tested

    @property
    def title(self) -> str:
        return " + ".join(operator.op for operator in self.operators)


@dataclass(frozen=True)
class Localization:
    """The result of a localisation: where a case goes wrong."""

    target: Target  # the rung on which parts were tested
    rungs: tuple[Rung, ...] = ()
    suspects: tuple[SuspectPart, ...] = ()
    form: str = ""  # the form of the program that was taken apart
    operators: int = 0
    lone: bool = False  # the first suspect was found by asking single operators, before anything else
    explained: bool = False  # without the suspects the program passes
    observer: str = ""  # the effect of making every value an output
    note: str = ""  # why there is no more
    queries: int = 0
    seconds: float = 0.0
    internal_errors: tuple[str, ...] = ()
