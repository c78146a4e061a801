"""The figures of the source code do not rise above their limits."""

from __future__ import annotations

import ast

import pytest

from house.measures import TITLES, measure, parameter_count, read_limits


@pytest.fixture(scope="module")
def figures() -> dict[str, int]:
    return measure()


@pytest.mark.parametrize("name", TITLES)
def test_a_figure_stays_within_its_limit(name: str, figures: dict[str, int]) -> None:
    limit = read_limits()[name]
    assert figures[name] <= limit, f"{TITLES[name]}: {figures[name]}, limit {limit} (tests/house/limits.toml)"


def test_parameters_are_counted_without_self() -> None:
    (made,) = ast.parse("class A:\n    def f(self, a, /, b, *rest, c=1, **more): ...").body[0].body  # type: ignore[attr-defined]
    assert parameter_count(made) == 5
