"""Other sizes of the inputs: for a program that does not run on its own inputs, since language models often get one
number wrong, and for one that is a copy of another.

For the former, numbers in the error message are tried first, then those in the program. The number of tries is fixed,
so that the result does not depend on the speed of the machine.
"""

from __future__ import annotations

import ast
import math
import random
import re
from collections.abc import Iterator, Sequence

from driftline.core.tensors import Shape

TRIES = 60
_MOST_ELEMENTS = 1 << 20
_MOST_NUMBERS = 12
_VARIED = (1, 2, 3, 5, 7, 9, 16, 17, 33)


def other_shapes(shapes: Sequence[Shape], error: str, text: str) -> Iterator[list[Shape]]:
    """Yield shapes for all inputs, the most likely first, each once."""
    seen = {tuple(shapes)}
    given = 0
    for candidate in _candidates(list(shapes), _in_error(error), _in_text(text)):
        key = tuple(candidate)
        if key in seen or any(math.prod(shape) > _MOST_ELEMENTS for shape in candidate):
            continue
        seen.add(key)
        yield candidate
        given += 1
        if given == TRIES:
            return


def varied_shapes(shapes: Sequence[Shape], rng: random.Random) -> Iterator[list[Shape]]:
    """Yield shapes for all inputs in which one size is replaced everywhere, so that sizes that must be equal stay
    equal."""
    changes = [(old, new) for old in {size for shape in shapes for size in shape} for new in _VARIED if new != old]
    rng.shuffle(changes := sorted(changes))
    for old, new in changes[:TRIES]:
        varied = [tuple(new if size == old else size for size in shape) for shape in shapes]
        if all(math.prod(shape) <= _MOST_ELEMENTS for shape in varied):
            yield varied


def _candidates(shapes: list[Shape], told: list[int], written: list[int]) -> Iterator[list[Shape]]:
    for numbers in (told, written):
        for number in numbers:
            for at, shape in enumerate(shapes):
                for axis in reversed(range(len(shape))):
                    if numbers is written or shape[axis] in told:
                        yield _with(shapes, at, (*shape[:axis], number, *shape[axis + 1 :]))
            if len(shapes) > 1 and all(shapes):
                yield [(*shape[:-1], number) for shape in shapes]
        if numbers is told:
            for at, shape in enumerate(shapes):
                yield [shape] * len(shapes)
                yield _with(shapes, at, (1, *shape))
                if len(shape) > 1:
                    yield _with(shapes, at, shape[1:])
                    yield _with(shapes, at, (*shape[:-2], shape[-1], shape[-2]))
            yield [(1, *shape) for shape in shapes]
            yield [shape[1:] if len(shape) > 1 else shape for shape in shapes]


def _with(shapes: list[Shape], at: int, shape: Shape) -> list[Shape]:
    return [*shapes[:at], shape, *shapes[at + 1 :]]


def _in_error(error: str) -> list[int]:
    numbers = [int(word) for word in re.findall(r"(?<![\w.])\d{1,5}(?=[\D]|$)", error.replace("x", " "))]
    return list(dict.fromkeys(number for number in numbers if 0 < number <= 4096))[:_MOST_NUMBERS]


def _in_text(text: str) -> list[int]:
    """Return the integers in the program, the most frequent first."""
    found: dict[int, int] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and type(node.value) is int and 1 < node.value <= 1024:
            found[node.value] = found.get(node.value, 0) + 1
    return sorted(found, key=lambda number: -found[number])[:_MOST_NUMBERS]
