"""The generator `layers`: attention, norms, chains of layers and the like, written in operators of the table.

The programs are graphs like those of `graph`, in every language, so failures are reduced and named in the same way; but
operators are combined as in real models, which is what fusions are written for. An arm is a block of `blocks.py`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from driftline.generate.base import Blueprint, Generator, GeneratorRequest, NoProgram
from driftline.generate.blueprint import LANGUAGE
from driftline.generate.graph import Graph
from driftline.generate.layers import blocks  # noqa: F401 - registers them
from driftline.generate.layers.graph_sketch import BLOCKS, GraphSketch
from driftline.generate.operator import THRESHOLDS, Draw
from driftline.generate.random_graph import varied
from driftline.generate.table import OPERATORS
from driftline.generate.transforms import drawn_transform

_DTYPES = ("float32",) * 6 + ("float16", "bfloat16", "float64")
_LARGE_SHARE = 0.3
_GRADIENT_SHARE = 0.25


class Layers(Generator):
    name = "layers"
    needs_framework = False

    def arms(self, form: str) -> Sequence[str]:
        return [name for name in sorted(BLOCKS) if self._can_make(name, form)]

    def _can_make(self, name: str, form: str) -> bool:
        """True if the language has all operators of the block."""
        try:
            _drawn(GeneratorRequest(form, name, 0))
        except NoProgram:
            return False
        return True

    def make(self, request: GeneratorRequest) -> Blueprint:
        if request.arm not in BLOCKS:
            raise NoProgram(f"there is no block {request.arm}")
        graph = _drawn(request)
        for operator, dtype in graph.coverage:
            if f"{operator} {dtype}" in request.avoid:
                raise NoProgram(f"{request.arm} has {operator} of {dtype}, which is to be avoided")
        return varied(drawn_transform(graph, request), request.form)


def _drawn(request: GeneratorRequest) -> Graph:
    """Draw the graph of a request. Number 0 is small and in float32; later ones may have a long axis, another float
    type, or the gradient."""
    rng = random.Random(f"{request.seed}/{request.form}/{request.arm}/{request.number}")
    draw, language = Draw(rng), LANGUAGE[request.form]
    plain = request.number == 0
    large = draw.chance(_LARGE_SHARE) and not plain

    def size() -> int:
        return draw.choice(THRESHOLDS) if large else draw.integer(2, 33)

    sketch = GraphSketch(language, draw, "float32" if plain else draw.choice(_DTYPES), size)
    drawn = BLOCKS[request.arm](sketch)
    overwrites = any(OPERATORS[name].inplace for name, *_ in sketch.nodes)
    grad = language == "torch" and not overwrites and not plain and draw.chance(_GRADIENT_SHARE)
    return sketch.graph([drawn] if isinstance(drawn, int) else drawn, grad=grad)
