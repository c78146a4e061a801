"""What a compiler leaves in the inputs that a program writes to must follow from the parts, too."""

from __future__ import annotations

import numpy as np
import pytest

from driftline.campaign.triage.following import _inputs_follow, held_in_the_end, last_written
from driftline.core.tensors import Arrays
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.generate.table import OPERATORS

KIND = TensorType("float32", (4,))
INPLACE = next(name for name, operator in sorted(OPERATORS.items()) if operator.inplace)


def test_the_last_value_that_is_written_to_an_input_is_what_it_holds() -> None:
    nodes = (
        Node("abs", (1,), (KIND,)),  # 2: no input is written to
        Node(INPLACE, (0,), (KIND,)),  # 3: into the first input
        Node(INPLACE, (3,), (KIND,)),  # 4: once more into the same
        Node(INPLACE, (2,), (KIND,)),  # 5: into a value of its own
    )
    graph = Graph((Leaf("input", KIND), Leaf("input", KIND)), nodes, (4, 5))
    assert last_written(graph) == {0: 4}
    assert held_in_the_end(graph) == {0: 4, 1: 1, 2: 5, 3: 4, 4: 4, 5: 5}, "what is returned was perhaps written later"


BEFORE = {"x": np.ones(4, np.float32), "y": np.ones(4, np.float32)}
TWICE = {"x": np.full(4, 2, np.float32)}


@pytest.mark.parametrize(
    "came,composed,follow",
    [
        ({}, {}, True),
        (TWICE, TWICE, True),
        ({"x": np.full(4, 3, np.float32)}, TWICE, False),  # written wrongly, in a way that no part explains
        ({}, TWICE, False),  # not written at all
        ({}, {"x": np.ones(4, np.float32)}, True),  # what is written is what was there
        (TWICE, {}, False),  # written though nobody writes there
    ],
)
def test_inputs_that_are_written_to_must_follow(came: Arrays, composed: Arrays, follow: bool) -> None:
    assert _inputs_follow(came, composed, BEFORE) == follow
