"""The report of a mock backend: graphs, violations, and what was not checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from driftline.core.text import plural
from driftline.hardware.facts import GraphFacts, SourceLine
from driftline.hardware.liveness import peak_memory
from driftline.hardware.sizes import show_bytes
from driftline.hardware.violation import Violation, grouped


@dataclass(frozen=True)
class GraphSummary:
    """Statistics of one graph."""

    name: str
    operators: dict[str, int]
    dtypes: dict[str, int]
    peak_bytes: int
    violations: int
    code: str = ""  # the graph as Python text

    @staticmethod
    def of(graph: GraphFacts, violations: int, code: str) -> GraphSummary:
        return GraphSummary(graph.name, graph.operators(), graph.dtypes(), peak_memory(graph).nbytes, violations, code)


@dataclass(frozen=True)
class GraphBreak:
    """A graph break: where `torch.compile` leaves the graph. Code that runs there is not checked."""

    reason: str
    source: SourceLine | None = None

    def __str__(self) -> str:
        return f"{self.source or '(no source line)'}\n    {self.reason}"


@dataclass
class ConstraintReport:
    """The report of a mock backend; it grows with every compiled graph."""

    profile: str
    graphs: list[GraphSummary] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    breaks: list[GraphBreak] = field(default_factory=list)
    unseen_breaks: int = 0  # graph breaks in functions of which no graph came here
    notes: list[str] = field(default_factory=list)  # about the profile: names that no operator has

    @property
    def passed(self) -> bool:
        """True if nothing that was checked breaks a constraint; `breaks` lists what was not checked."""
        return not self.violations

    def summary(self) -> str:
        """Return the report as text: graphs, violations by source line, and what was not checked."""
        operators = sum(sum(graph.operators.values()) for graph in self.graphs)
        lines = [
            f"{self.profile}: {plural(len(self.violations), 'violation')} in {plural(operators, 'operator')} of"
            f" {plural(len(self.graphs), 'graph')}"
        ]
        lines += [
            f"  {graph.name}: {plural(sum(graph.operators.values()), 'operator')}, peak memory"
            f" {show_bytes(graph.peak_bytes)}, {plural(graph.violations, 'violation')}"
            for graph in self.graphs
        ]
        lines += [str(group) for group in grouped(self.violations)]
        return "\n".join([*lines, *self.coverage(), *self.notes])

    def coverage(self) -> list[str]:
        """Return sentences about what was not checked; empty if everything was."""
        told = []
        if self.breaks:
            told.append(f"Not checked: what runs at {plural(len(self.breaks), 'graph break')}, outside of all graphs:")
            told += [str(one) for one in self.breaks]
        if self.unseen_breaks:
            told.append(
                f"Not checked: {plural(self.unseen_breaks, 'function')} with a graph break and no graph before it."
            )
        if not self.graphs:
            told.append("Nothing was checked: torch.compile made no graph of this program.")
        return told

    def to_json(self) -> dict[str, Any]:
        return {"schema": 1, **asdict(self), "passed": self.passed}


def places(violations: Sequence[Violation]) -> int:
    """Return how many lines of the program break a constraint."""
    return len({(one.source.file, one.source.line) for one in violations if one.source})
