"""Nested values to flat names and back."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from driftline.core.structure import flatten, leaves, rebuild

Pair = namedtuple("Pair", ["key", "value"])


@dataclass(frozen=True)
class Result:
    logits: int
    hidden: tuple[int, ...]


def test_names_are_dotted_paths() -> None:
    value = {"past": [Pair(1, 2)], "x": 3, "result": Result(4, (5, 6))}
    assert flatten(value, "output") == {
        "past.0.key": 1,
        "past.0.value": 2,
        "x": 3,
        "result.logits": 4,
        "result.hidden.0": 5,
        "result.hidden.1": 6,
    }


def test_a_single_leaf_takes_the_name_of_the_root() -> None:
    assert flatten(7, "output") == {"output": 7}
    assert flatten((7,), "output") == {"0": 7}


def test_none_is_left_out_but_kept_in_place() -> None:
    assert flatten((None, 1), "output") == {"1": 1}
    assert rebuild((None, 1), lambda name, leaf: leaf) == (None, 1)


keys = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=4)
nested = st.recursive(
    st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=12,
)


@given(nested)
def test_rebuilding_with_the_same_leaves_gives_the_same_value(value: object) -> None:
    again = rebuild(value, lambda name, leaf: leaf)
    assert again == value
    assert type(again) is type(value)


@given(nested)
def test_rebuild_and_flatten_use_the_same_names(value: object) -> None:
    seen: dict[str, object] = {}
    rebuild(value, lambda name, leaf: seen.setdefault(name, leaf))
    flat = flatten(value, "")
    assert seen == flat
    assert len(flat) == len(list(leaves(value)))
