"""Changes of wiring: intermediate values as results, additional users, operands in other places."""

from __future__ import annotations

import random
from typing import Any

from driftline.generate.base import NoProgram
from driftline.generate.changes.model import ModelChange, chosen, interior, value_types

_FLOATS = (1, 10, 11)


def interior_output(model: Any, rng: random.Random) -> None:
    """Return an intermediate value too."""
    import onnx

    types = value_types(model)
    values = [n for n in interior(model) if types.get(n, (0,))[0] != onnx.TensorProto.STRING]  # strings: not compared
    name = chosen(values, rng, "value in the middle")
    made = onnx.ValueInfoProto(name=name)
    model.graph.output.insert(rng.randint(0, len(model.graph.output)), made)


def further_user(model: Any, rng: random.Random) -> None:
    """Add another user of an intermediate value."""
    import onnx
    from onnx import helper

    types = value_types(model)
    name = chosen([n for n in interior(model) if types.get(n, (0,))[0] in _FLOATS], rng, "float in the middle")
    model.graph.node.append(helper.make_node("Neg", [name], ["further"]))
    model.graph.output.append(onnx.ValueInfoProto(name="further"))


def swapped_operands(model: Any, rng: random.Random) -> None:
    """Swap the first two operands of a node."""
    node = chosen([n for n in model.graph.node if len([i for i in n.input if i]) >= 2], rng, "node with two operands")
    node.input[0], node.input[1] = node.input[1], node.input[0]


def same_operand(model: Any, rng: random.Random) -> None:
    """Replace an operand with another value of the same type, often one that is already used."""
    types = value_types(model)
    nodes = list(model.graph.node)
    at = rng.randrange(len(nodes))
    places = [place for place, name in enumerate(nodes[at].input) if name in types]
    if not places:
        raise NoProgram("a node without operands")
    place = rng.choice(places)
    known = [i.name for i in model.graph.input] + [t.name for t in model.graph.initializer]
    known += [name for node in nodes[:at] for name in node.output]
    old = nodes[at].input[place]
    nodes[at].input[place] = chosen([n for n in known if n != old and types.get(n) == types[old]], rng, "like value")


def open_sizes(model: Any, rng: random.Random) -> None:
    """Make the sizes of the inputs symbolic."""
    for number, info in enumerate(model.graph.input):
        for axis, size in enumerate(info.type.tensor_type.shape.dim):
            if rng.random() < 0.6:
                size.dim_param = f"n{number}_{axis}"


def inserted_node(model: Any, rng: random.Random) -> None:
    """Insert a node between two others, where most rules do not expect one."""
    from onnx import helper

    types = value_types(model)
    name = chosen([n for n in interior(model) if types.get(n, (0,))[0] in _FLOATS], rng, "float in the middle")
    for node in model.graph.node:
        node.input[:] = ["inserted" if used == name else used for used in node.input]
    at = next(i for i, node in enumerate(model.graph.node) if name in node.output)
    kind = rng.choice(["Identity", "Relu", "Neg", "Abs"])
    model.graph.node.insert(at + 1, helper.make_node(kind, [name], ["inserted"]))


WIRING_CHANGES: dict[str, ModelChange] = {
    "interior output": interior_output,
    "further user": further_user,
    "swapped operands": swapped_operands,
    "same operand": same_operand,
    "open sizes": open_sizes,
    "inserted node": inserted_node,
}
