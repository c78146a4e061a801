"""Changes of attributes: other values for those that are set, values for those that are omitted, other opset
versions."""

from __future__ import annotations

import random
from typing import Any

from driftline.generate.base import NoProgram
from driftline.generate.changes.model import ModelChange, chosen

_WORDS = {
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "mode": ("constant", "reflect", "edge", "nearest", "linear", "cubic"),
    "approximate": ("none", "tanh"),
    "coordinate_transformation_mode": ("half_pixel", "asymmetric", "align_corners"),
    "nearest_mode": ("round_prefer_floor", "floor", "ceil"),
    "rounding_mode": ("round",),
}
_NUMBERED = ("to", "dtype", "saturate", "output_dtype")  # element types: another one is another program
VERSIONS = (7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)


def other_attribute(model: Any, rng: random.Random) -> None:
    """Give an attribute that is set another value."""
    places = [(node, a) for node in model.graph.node for a in node.attribute if a.name not in _NUMBERED]
    _, attribute = chosen(places, rng, "attribute")
    if attribute.ints:
        _move(attribute.ints, attribute.name, rng)
    elif attribute.floats:
        attribute.floats[rng.randrange(len(attribute.floats))] *= rng.choice([0.5, 2.0, -1.0])
    elif attribute.type == attribute.INT:
        attribute.i = rng.choice([n for n in (-2, -1, 0, 1, 2, 3) if n != attribute.i])
    elif attribute.type == attribute.FLOAT:
        attribute.f = rng.choice([0.0, 0.25, 1.0, 2.0, -1.0, 1e-2])
    elif attribute.name in _WORDS:
        attribute.s = rng.choice(_WORDS[attribute.name]).encode()
    else:
        raise NoProgram("an attribute of another kind")


def _move(numbers: Any, name: str, rng: random.Random) -> None:
    if name == "perm":
        shuffled = rng.sample(list(numbers), len(numbers))
        numbers[:] = shuffled
    else:
        at = rng.randrange(len(numbers))
        numbers[at] = max(0, numbers[at] + rng.choice([-1, 1, 1, 2]))


def further_attribute(model: Any, rng: random.Random) -> None:
    """Set an attribute that a node omits to something other than its default."""
    import onnx
    from onnx import helper

    version = next(opset.version for opset in model.opset_import if not opset.domain)
    options = []
    for node in model.graph.node:
        if node.domain:
            continue
        schema = onnx.defs.get_schema(node.op_type, version)
        given = {attribute.name for attribute in node.attribute}
        for name, declared in schema.attributes.items():
            if name not in given and name not in _NUMBERED:
                options += [(node, name, value) for value in _values(name, declared, node)]
    node, name, value = chosen(options, rng, "attribute to set")
    node.attribute.append(helper.make_attribute(name, value))


def _values(name: str, declared: Any, node: Any) -> list[Any]:
    import onnx

    kinds = onnx.defs.OpSchema.AttrType
    default = onnx.helper.get_attribute_value(declared.default_value) if declared.default_value.name else None
    wanted: dict[Any, list[Any]] = {
        kinds.INT: [-1, 0, 1, 2],
        kinds.FLOAT: [0.0, 0.5, 2.0, -1.0],
        kinds.STRING: list(_WORDS.get(name, ())),
        kinds.INTS: [[1, 1], [2, 2], [2, 1], [1, 1, 1, 1], [0, 1, 1, 0], [2], [0, 1], [1, 0, 2], [0, 2, 1]],
    }
    return [value for value in wanted.get(declared.type, []) if value != default]


def other_version(model: Any, rng: random.Random) -> None:
    """Declare another opset version for the same nodes. The caller checks that the model is still valid."""
    opset = next(opset for opset in model.opset_import if not opset.domain)
    opset.version = rng.choice([version for version in VERSIONS if version != opset.version])


ATTRIBUTE_CHANGES: dict[str, ModelChange] = {
    "other attribute": other_attribute,
    "further attribute": further_attribute,
    "other version": other_version,
}
