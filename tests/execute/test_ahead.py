"""Work ahead: answers come in order, so many at once, and nothing is begun that nobody wants."""

from __future__ import annotations

import itertools
import threading

import pytest

from driftline.execute.ahead import ahead


def test_answers_come_in_the_order_of_the_items_and_run_side_by_side() -> None:
    together = threading.Barrier(3, timeout=20)  # none of three goes on before all have begun

    def work(number: int) -> int:
        together.wait()
        return number * number

    assert list(ahead(work, range(6), 3)) == [0, 1, 4, 9, 16, 25]


def test_no_more_is_begun_than_was_asked_for() -> None:
    begun: list[int] = []
    answers = ahead(lambda number: begun.append(number), itertools.count(), 2)
    next(answers)
    answers.close()
    assert sorted(begun) in ([0], [0, 1])


def test_an_error_comes_where_its_item_stands() -> None:
    answers = ahead(lambda number: 1 // number, (2, 1, 0, 5), 4)
    assert [next(answers), next(answers)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(answers)
