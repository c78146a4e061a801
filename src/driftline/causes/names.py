"""The operator names that a failure can have. A cause that requires any other name could never explain anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from driftline.core.spelling import spelled_alike

FILE = Path(__file__).with_name("operators.txt")  # benchmarks/operator_names.py writes it
# Operators of Driftline's table for the integer version of an operator, with the name of the whole operator.
_INTEGER_TWINS = {"intpow": "pow", "intfmod": "fmod", "intremainder": "remainder"}


@cache
def known_names() -> Mapping[str, str]:
    """Return the known names in their usual spelling, by their common name (see core/spelling.py)."""
    return {common: name for name in FILE.read_text().split() for common in spelled_alike([name])}


def plain_names(operators: Iterable[str]) -> frozenset[str]:
    """Return common names with those of integer twins replaced: `int_pow` of a generated program is a `pow`."""
    return frozenset(_INTEGER_TWINS.get(name, name) for name in operators)
