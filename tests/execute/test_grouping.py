"""How programs are divided among workers."""

from __future__ import annotations

import pytest

from driftline.execute.grouping import evenly, in_company


@pytest.mark.parametrize(("items", "sizes"), [(0, []), (3, [3]), (8, [8]), (9, [4, 5]), (17, [6, 5, 6])])
def test_groups_are_of_about_one_size(items: int, sizes: list[int]) -> None:
    """A last one that is left over would be compiled alone, which takes as long as several together."""
    assert [len(group) for group in in_company(range(items), lambda _: "plain", 8)] == sizes
    assert [len(group) for group in in_company(range(items), lambda _: "", 8)] == [1] * items


def test_no_job_is_in_two_companies() -> None:
    groups = list(in_company("aBcDeF", lambda letter: "upper" if letter.isupper() else "lower", 2))
    assert [len({letter.isupper() for letter in group}) for group in groups] == [1] * len(groups)
    assert sorted(letter for group in groups for letter in group) == sorted("aBcDeF")


def test_pieces_are_even_and_in_order() -> None:
    assert [list(piece) for piece in evenly(range(5), 2)] == [[0, 1], [2, 3, 4]]
    assert [list(piece) for piece in evenly([7], 3)] == [[7]]
    assert list(evenly([], 2)) == []
