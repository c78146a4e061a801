"""What is kept of shadows does not grow without end."""

from __future__ import annotations

import numpy as np

from driftline.checking.shadow_cache import ShadowCache
from driftline.oracle.outputs import ShadowAnswer


def answer(elements: int) -> ShadowAnswer:
    return ShadowAnswer({"y": np.zeros(elements)}, {}, {}, {})


def test_the_newest_are_kept_by_number() -> None:
    cache = ShadowCache(most=3)
    for key in range(5):
        cache.keep(key, answer(1))
    assert [key for key in range(5) if cache.get(key)] == [2, 3, 4]


def test_the_newest_are_kept_by_size_and_at_least_one() -> None:
    cache = ShadowCache(room=8 * 100)
    cache.keep("a", answer(60))
    cache.keep("a", answer(60))  # in place of itself
    cache.keep("b", answer(40))
    assert cache.get("a") and cache.get("b")
    cache.keep("c", answer(10))
    assert not cache.get("a") and cache.get("b") and cache.get("c")
    cache.keep("large", answer(1000))
    assert cache.get("large") and not cache.get("c")
    cache.keep("d", answer(10))
    assert cache.get("d") and not cache.get("large")
