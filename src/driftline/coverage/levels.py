"""The data of a coverage report: compilers, the four levels of the pyramid, and cells of operator and dtype.

construction  an operator in a dtype was given to the compiler: built, or declined as not supported
pass          a rewrite rule or pass of the compiler changed a graph; TVM's schedule primitives count here too
operator      results of an operator in a dtype were compared with the reference
model         a whole architecture was compared with the reference
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

CONSTRUCTION, PASS, OPERATOR, MODEL = LEVELS = ("construction", "pass", "operator", "model")


class CellState(StrEnum):
    """The state of an operator in a dtype."""

    NEVER = "never run"
    DECLINED = "declined"  # the compiler says that it does not support it
    UNJUDGED = "not judged"  # it ran, or failed to run, without a verdict
    PASSES = "passes"
    MIXED = "some fail"  # programs with it pass and programs with it fail: another operator may be to blame
    FAILS = "fails"


def state_of(counts: Mapping[str, int]) -> CellState:
    """Return the state of a cell, given the number of programs for each judgement."""
    if counts.get("fail"):
        return CellState.MIXED if counts.get("pass") else CellState.FAILS
    if counts.get("pass"):
        return CellState.PASSES
    if counts.get("inconclusive"):
        return CellState.UNJUDGED
    return CellState.DECLINED if counts.get("rejected") else CellState.NEVER


@dataclass(frozen=True)
class Level:
    """One level of the pyramid for one compiler."""

    name: str
    covered: int
    total: int  # the number of items to cover; 0: not listed
    missing: tuple[str, ...] = ()
    command: str = ""  # a command that would cover some of the missing items
    note: str = ""  # a sentence on items that the numbers leave out

    @property
    def percent(self) -> float | None:
        """The covered share in percent; None if there is nothing to cover or it cannot be listed; 0 if it was not
        listed yet.
        """
        if not self.total:
            return 0.0 if self.missing else None
        return 100 * self.covered / self.total


@dataclass(frozen=True)
class RuleRow:
    """A rewrite rule, pass or schedule primitive, and whether it fired."""

    id: str
    name: str
    fired: bool
    unreachable: str = ""  # why it cannot fire on this machine


@dataclass(frozen=True)
class ModelRow:
    """The results of a model on a compiler."""

    name: str
    state: CellState
    runs: int = 0
    fails: int = 0


@dataclass(frozen=True)
class CompilerCoverage:
    """The coverage of one compiler."""

    name: str
    versions: tuple[str, ...]
    programs: int  # of hunts
    seconds: float
    cells: Mapping[str, Mapping[str, Mapping[str, int]]]  # operator -> dtype -> judgement -> programs; {}: never run
    listed: frozenset[str]  # operators of the table, which the percentages are about; the others come from suites
    rules: tuple[RuleRow, ...]
    models: tuple[ModelRow, ...]
    levels: tuple[Level, ...]

    @property
    def exercised(self) -> bool:
        """True if anything ran on the compiler."""
        return bool(self.programs or any(rule.fired for rule in self.rules) or any(row.runs for row in self.models))

    def level(self, name: str) -> Level:
        return next(level for level in self.levels if level.name == name)

    def states(self, dtype: str) -> dict[CellState, int]:
        """Return the number of operators of the table in each state for a dtype."""
        counts = dict.fromkeys(CellState, 0)
        for operator, by_dtype in self.cells.items():
            if operator in self.listed and dtype in by_dtype:
                counts[state_of(by_dtype[dtype])] += 1
        return counts


@dataclass(frozen=True)
class Coverage:
    """The coverage of all compilers in a store."""

    store: str
    compilers: tuple[CompilerCoverage, ...]
    gaps: tuple[str, ...] = ()  # what of the store could not be read, in sentences
