"""Nested values to flat names and back."""

from __future__ import annotations

from collections import UserDict, namedtuple
from dataclasses import dataclass

import numpy as np
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


class CacheLayerMixin:
    """Like a layer of transformers' caches."""

    def __init__(self, number: int) -> None:
        self.keys, self.values, self.is_initialized = np.full(2, number), np.full(2, -number), True


class Cache:
    def __init__(self, count: int) -> None:
        self.layers = [CacheLayerMixin(number) for number in range(1, count + 1)]


def test_a_cache_is_taken_apart_by_layer_and_put_together_without_touching_it() -> None:
    cache = Cache(2)
    assert list(flatten({"past": cache}, "")) == ["past.0.key", "past.0.value", "past.1.key", "past.1.value"]
    other = rebuild({"past": cache}, lambda name, leaf: leaf * 10)["past"]
    assert type(other) is Cache and other.layers[1].is_initialized
    assert other.layers[1].keys.tolist() == [20, 20] and cache.layers[1].keys.tolist() == [2, 2]
    other.layers.append(CacheLayerMixin(3))  # as a model does
    assert len(cache.layers) == 2


def test_dataclasses_and_mappings_of_a_type_of_their_own_are_rebuilt_as_such() -> None:
    given = {"result": Result(4, (5, 6)), "batch": UserDict(ids=7)}
    again = rebuild(given, lambda name, leaf: leaf + 1)
    assert again["result"] == Result(5, (6, 7)) and given["result"] == Result(4, (5, 6))
    assert type(again["batch"]) is UserDict and again["batch"]["ids"] == 8 and given["batch"]["ids"] == 7


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
