"""What a recorded event says of objects that are no tensors."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from driftline.scenarios.walk import describe


class ReversedSet(set[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(())


class BrokenSet(set[int]):
    __iter__ = None  # type: ignore[assignment]


def test_sizes_are_told_with_their_numbers() -> None:
    assert describe(torch.zeros(2, 3).shape)[0].text == "torch.Size([2, 3])"


def test_elements_of_a_set_do_not_depend_on_its_own_iterator() -> None:
    for of in (ReversedSet, BrokenSet):
        fact, _ = describe(of((3, 1)))
        assert (fact.text, fact.size) == (f"{of.__name__} of 1, 3", 2)
