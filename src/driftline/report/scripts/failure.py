"""The facts about a failure that a script needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from driftline.core.evidence import Evidence, Number
from driftline.core.tensors import Arrays


@dataclass(frozen=True)
class Leeway:
    """The right results at each wrong element, for an output in which a specification or rounding allows several. The
    script then compares the wrong elements only. An empty `right` means that a script cannot tell right from wrong: the
    output is a choice, such as the index of a maximum, and other choices are as good.
    """

    right: Mapping[tuple[int, ...], tuple[Number, ...]]  # the expected result first


@dataclass(frozen=True)
class ShownFailure:
    """The facts about a failure that a script needs, taken from its evidence and its case."""

    kind: str
    evidence: Evidence
    message: str = ""  # of an exception
    dtype: str = "float32"  # of the output that is wrong
    timeout: float = 300.0
    ending: str = ""  # the type of an exception; how a process died: SIGSEGV, or exit code 3
    memory: int = 8 << 30  # bytes that it might use
    expected: Arrays = field(default_factory=dict)  # the outputs of the unoptimised program, where they are known
    right: Arrays = field(default_factory=dict)  # the outputs in float64, rounded once to their dtypes
    leeway: Leeway | None = None

    @property
    def outputs(self) -> int:
        """The number of outputs; 0 if it is not known."""
        return len(self.expected)

    @property
    def index(self) -> int | None:
        """The index of the wrong output among the results, or None if it is not known. Gradients and changed inputs
        have no index, since a script lists them in another order.
        """
        names = self._results
        if self.evidence.output not in names and len(names) < len(self.expected):
            return None
        if any(":" in name for name in names):
            return None
        return names.index(self.evidence.output) if self.evidence.output in names else 0 if len(names) == 1 else None

    @property
    def _results(self) -> list[str]:
        """The names of the outputs, without the changed inputs, which a script does not list."""
        return [name for name in self.expected if not name.startswith("mutated:")]

    def of_wrong_output(self) -> tuple[Arrays, Arrays]:
        """Return the expected and the correctly rounded outputs that a script compares: the wrong output, or all if it
        is not known.
        """
        index = self.index
        if index is None:
            return self.expected, self.right
        name = self._results[index]
        return {name: self.expected[name]}, {name: self.right[name]} if name in self.right else {}
