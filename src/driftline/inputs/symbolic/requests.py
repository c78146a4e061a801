"""The request for a worker to find inputs that drive a program to goals. The function is in `search.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driftline.core.case_files import CaseFiles
from driftline.core.task import Task


@dataclass(frozen=True)
class SearchRequest:
    """The goals as `--goal` spells them. `dtype` runs the program in that dtype; `node` restricts the search to one
    node. Answers are read from and written to the file `cache`, by slice."""

    case: CaseFiles
    goals: str
    budget: float
    dtype: str = ""
    node: str = ""
    most: int = 0  # stop after so many witnesses of the whole program; 0: never
    cache: Path | None = None


@dataclass(frozen=True)
class SearchRow:
    """The result for one goal at one node. `reach` says whether a witness holds for the whole `program` or only for the
    `slice`."""

    node: str
    operator: str
    goal: str
    outcome: str  # witness, proof, unknown
    step: str = ""
    reach: str = ""
    seconds: float = 0.0
    numbers: Mapping[str, float] = field(default_factory=dict)
    inputs: Path | None = None  # of a witness that reaches the program
    nan: int = 0  # among the program's results on them
    inf: int = 0
    label: str = ""  # the node's name in the user's file

    def to_json(self) -> dict[str, Any]:
        body = {key: value for key, value in vars(self).items() if key != "inputs"}
        return {**body, "numbers": {name: repr(value) for name, value in self.numbers.items()}}


@dataclass(frozen=True)
class SearchAnswer:
    rows: tuple[SearchRow, ...] = ()
    unasked: int = 0  # queries for which no time was left
    problem: str = ""


SEARCH = Task("driftline.inputs.symbolic.search:search", SearchRequest, SearchAnswer)
