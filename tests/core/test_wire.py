"""Messages as JSON and back, by their declared types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from driftline.core.errors import InternalError
from driftline.core.execution import Failure, Outcome
from driftline.core.program import Program
from driftline.core.task import Context, Task
from driftline.core.tensors import TensorSpec
from driftline.core.wire import WireError, decode, encode, own_form


@dataclass(frozen=True)
class Small:
    number: int


@dataclass(frozen=True)
class Other:
    text: str


@own_form
@dataclass(frozen=True)
class Pair:
    first: int
    second: int

    def to_json(self) -> str:
        return f"{self.first}:{self.second}"

    @classmethod
    def from_json(cls, value: str) -> Pair:
        return cls(*map(int, value.split(":")))


@dataclass(frozen=True)
class Everything:
    path: Path
    outcome: Outcome
    pairs: tuple[tuple[str, int], ...]
    one_of: tuple[Small | Other, ...]
    maybe: Small | None
    by_number: Mapping[int, Small]
    names: frozenset[str]
    ratio: float
    scalar: int | str
    pair: Pair
    inner: Everything | None = None
    plain: Any = None
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


FULL = Everything(
    path=Path("/a/b"),
    outcome=Outcome.REJECTED,
    pairs=(("a", 1), ("b", 2)),
    one_of=(Other("x"), Small(3)),
    maybe=None,
    by_number={7: Small(7)},
    names=frozenset({"b", "a"}),
    ratio=0.5,
    scalar="s",
    pair=Pair(1, 2),
    plain={"any": [1, None]},
    notes={"x": ("y",)},
)


def travelled(kind: type[Any], value: Any) -> Any:
    return decode(kind, json.loads(json.dumps(encode(kind, value))))


def test_everything_comes_back_as_it_was() -> None:
    nested = Everything(**{**FULL.__dict__, "inner": FULL, "maybe": Small(1)})
    assert travelled(Everything, nested) == nested
    program = Program("onnx", "onnx", "d", Path("/p"), "n", (TensorSpec("x", "float32", (2, 3)),), data=("w",))
    assert travelled(Program, program) == program
    assert travelled(Failure, Failure("E", "m")) == Failure("E", "m")


def test_defaults_stay_at_home() -> None:
    assert "inner" not in encode(Everything, FULL)
    assert encode(Failure, Failure("E", "m")) == {"type": "E", "message": "m"}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"number": "3"}, r"Small\.number: '3' is not int"),
        ({"number": 3, "more": 1}, "Small has no field more"),
        ({}, "Small: .*missing.*number"),
        ([], "is no Small"),
    ],
)
def test_what_does_not_fit_is_named(data: Any, told: str) -> None:
    with pytest.raises(WireError, match=told):
        decode(Small, data)
    assert issubclass(WireError, InternalError)


def test_the_place_of_a_mistake_is_told() -> None:
    data = encode(Everything, FULL)
    with pytest.raises(WireError, match=r"Everything\.outcome: 'FINE' is not a valid Outcome"):
        decode(Everything, {**data, "outcome": "FINE"})
    with pytest.raises(WireError, match=r"Everything\.one_of: .* is none of Small, Other"):
        decode(Everything, {**data, "one_of": [{"is": "Everything"}]})
    with pytest.raises(WireError, match="Other is sent where Small is expected"):
        encode(Small, Other("x"))  # type: ignore[type-var]


def test_what_cannot_travel_is_refused_by_type() -> None:
    @dataclass(frozen=True)
    class Unsendable:
        thing: complex

    with pytest.raises(TypeError, match="cannot be sent"):
        encode(Unsendable, Unsendable(1j))


def test_a_task_is_served_where_workers_look_for_it() -> None:
    task = Task(f"{__name__}:doubled", Small, Small)

    @task.serve
    def doubled(request: Small, context: Context) -> Small:
        return Small(2 * request.number)

    assert doubled.answer({"number": 4}, None) == {"number": 8}  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="where no worker looks for it"):
        Task(f"{__name__}:tripled", Small, Small).serve(doubled.function)
