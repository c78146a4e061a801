"""The base class of constraints: a frozen dataclass that reads facts about a graph, with settings for profiles.

A constraint is a plugin:

    @register_constraint("even")
    @dataclass(frozen=True)
    class EvenRows(Constraint):
        rows: int = setting(whole_number, "rows must be a multiple of this", default=2)

        def broken_by(self, node):
            for tensor in node.results:
                if tensor.shape and tensor.shape[0] % self.rows:
                    yield Broken(f"{tensor} has {tensor.shape[0]} rows", f"multiples of {self.rows}")

Then `[even]` with `rows = 4` may be used in a profile. A reader of a setting raises a ValueError for a wrong value,
with a message that continues after the name of the setting.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from driftline.core.registry import Registry
from driftline.hardware.facts import OUTPUT, GraphFacts, NodeFacts, TensorFacts
from driftline.hardware.sizes import parse_bytes
from driftline.hardware.violation import Violation

SettingReader = Callable[[Any], Any]
_READ, _HELP = "read", "help"


@dataclass(frozen=True)
class Broken:
    """What was found at a node, the rule that it breaks, and what would satisfy the rule."""

    value: str
    wanted: str
    fits: str = ""


def setting(read: SettingReader, help: str, **keywords: Any) -> Any:
    """Return a dataclass field that a profile may set; `read` converts the value from the file, `help` describes it."""
    return dataclasses.field(metadata={_READ: read, _HELP: help}, **keywords)


@dataclass(frozen=True)
class Constraint:
    """Base class of all constraints."""

    key: ClassVar[str] = ""  # the name in profiles

    only: tuple[str, ...] = setting(
        lambda value: patterns(value), "operators it is held against, such as 'mm' or '*conv*'; all if it is not set",
        default=(), kw_only=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Convert values given in Python with the same readers as values from a file."""
        for one in settings(type(self)):
            value = getattr(self, one.name)
            if value is not None and value != one.default:
                try:
                    object.__setattr__(self, one.name, one.metadata[_READ](value))
                except ValueError as error:
                    raise ValueError(f"{type(self).__name__}({one.name}={value!r}): {error}") from None

    def violations(self, graph: GraphFacts) -> Iterator[Violation]:
        """Yield the violations of this constraint in a graph."""
        for node in graph.nodes:
            if node.operator == OUTPUT or node.passes_on or (self.only and not node.matches(self.only)):
                continue
            for found in self.broken_by(node):
                yield self.violation(graph, node, found)

    def violation(self, graph: GraphFacts, node: NodeFacts, found: Broken) -> Violation:
        return Violation(
            self.key, graph.name, node.name, node.operator, found.value, found.wanted, found.fits, node.source
        )

    def broken_by(self, node: NodeFacts) -> Iterable[Broken]:
        """Yield or return what is wrong with one node."""
        return ()

    def tensors(self, node: NodeFacts) -> tuple[TensorFacts, ...]:
        """Return the tensors of a node to check. Every tensor is the result of some node; if the constraint applies to
        some operators only, the inputs of the node are included. Results that nothing reads are left out."""
        return tuple(dict.fromkeys((*node.inputs, *node.results))) if self.only else node.results

    def to_json(self) -> dict[str, Any]:
        values = {one.name: getattr(self, one.name) for one in settings(type(self))}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items() if v not in (None, ())}

    def to_python(self) -> str:
        """Return the constraint as a Python expression."""
        given = [
            f"{one.name}={getattr(self, one.name)!r}"
            for one in settings(type(self))
            if getattr(self, one.name) != one.default
        ]
        return f"{type(self).__name__}({', '.join(given)})"


def settings(cls: type[Constraint]) -> list[dataclasses.Field[Any]]:
    return [one for one in dataclasses.fields(cls) if _READ in one.metadata]


def setting_help(cls: type[Constraint]) -> dict[str, str]:
    return {one.name: one.metadata[_HELP] for one in settings(cls)}


# -- readers -----------------------------------------------------------------------------------------------------------


def whole_number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"must be a whole number of at least 1, not {value!r}")
    return value


def switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {value!r}")
    return value


def byte_count(value: Any) -> int:
    if isinstance(value, str):
        return parse_bytes(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"must be a number of bytes, such as 65536 or '64 KiB', not {value!r}")
    return value


def patterns(value: Any) -> tuple[str, ...]:
    """Validate a list of operator names, and return them; torch's own operators are accepted in Python."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"must be a list of names of operators, such as ['mm', '*softmax*'], not {value!r}")
    names = tuple(one if isinstance(one, str) else getattr(one, "__name__", str(one)) for one in value)
    if not names or not all(names):
        raise ValueError("must name at least one operator; leave it out to set nothing")
    return names


# -- the registry ------------------------------------------------------------------------------------------------------

_BUILTIN = {
    "shape": "driftline.hardware.constraints.shape:ShapeConstraint",
    "dtype": "driftline.hardware.constraints.dtype:DtypeConstraint",
    "memory": "driftline.hardware.constraints.memory:MemoryConstraint",
    "peak_memory": "driftline.hardware.constraints.memory:PeakMemoryConstraint",
    "layout": "driftline.hardware.constraints.layout:LayoutConstraint",
    "operators": "driftline.hardware.constraints.operators:OperatorConstraint",
    "limits": "driftline.hardware.constraints.limits:LimitsConstraint",
    "reduction": "driftline.hardware.constraints.limits:ReductionConstraint",
}


def _lazy(path: str) -> Callable[[], type[Constraint]]:
    def load() -> type[Constraint]:
        from driftline.core.registry import import_string

        found: type[Constraint] = import_string(path)
        return found

    return load


CONSTRAINTS: Registry[type[Constraint]] = Registry("constraint", {}, "driftline.constraints")
for _name, _path in _BUILTIN.items():
    CONSTRAINTS.register(_name, _lazy(_path))

C = TypeVar("C", bound=type[Constraint])


def register_constraint(key: str) -> Callable[[C], C]:
    """Class decorator: make the constraint available in profiles under the name `key`."""

    def register(cls: C) -> C:
        cls.key = key
        if key not in _BUILTIN:
            CONSTRAINTS.register(key, lambda: cls)
        return cls

    return register
