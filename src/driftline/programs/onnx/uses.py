"""Says what each ONNX operator reveals about the values it reads: one small function per family of operators."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from driftline.programs.onnx.flow import MASKED, Walk
from driftline.programs.onnx.shapes import SMALL, OpenSize

Visit = Callable[[Walk, Any, list[str], str], None]

_FLOATS = (1, 10, 11, 16)  # TensorProto: FLOAT, FLOAT16, DOUBLE, BFLOAT16
_BOOL = 9
_DOMAINS = ("", "ai.onnx", "com.microsoft")  # another's operator of the same name may be anything


def visit(walk: Walk, node: Any) -> None:
    """Note what a node reveals about its inputs, and pass knowledge on to its results."""
    if not node.output:
        return
    handler = _HANDLERS.get(node.op_type) if node.domain in _DOMAINS else None
    if handler:
        with contextlib.suppress(IndexError):  # fewer inputs than expected: nothing is learnt
            handler(walk, node, list(node.input), node.output[0])
    if node.input and all(name in walk.weights or not name for name in node.input):
        walk.weights.update(node.output)  # computed from constants alone


def _attribute(node: Any, name: str, default: Any) -> Any:
    import onnx

    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


# -- operators that pass values on -----------------------------------------------------------------------------------


def _pass(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    first = inputs[0]
    for name in node.output:
        walk.put(name, walk.flow(first))
        if first in walk.spans:
            walk.spans[name] = walk.spans[first]
    if first in walk.sizes and node.op_type in ("Identity", "Squeeze", "Unsqueeze", "Reshape"):
        walk.sizes[output] = walk.sizes[first]
    if first in walk.constants and node.op_type in ("Identity", "Squeeze", "Unsqueeze", "Reshape", "Cast"):
        walk.constants[output] = walk.constants[first]


def _cast(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    _pass(walk, node, inputs, output)
    if inputs[0] in walk.sizes:
        walk.sizes[output] = walk.sizes[inputs[0]]
    if not walk.flow(inputs[0]):
        return
    to = _attribute(node, "to", 0)
    if to == _BOOL:
        walk.facts.note([f for f in walk.flow(inputs[0]) if f.state != "flag"], "flag", "it is cast to bool")
        walk.flows[output] = walk.changed(inputs[0], "flag")
    elif to in _FLOATS:
        walk.flows[output] = tuple(replace(f, state="float") if f.state == "plain" else f for f in walk.flow(inputs[0]))


def _concat(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    for name in inputs:
        walk.put(output, walk.flow(name))
    parts: list[tuple[OpenSize, ...]] = []
    for name in inputs:
        held = walk.constants.get(name)
        if name in walk.sizes:
            parts.append(walk.sizes[name])
        elif held is not None and held.dtype.kind in "iu":
            parts.append(tuple(int(v) for v in held.reshape(-1)))
        else:
            return
    if sum(map(len, parts)) <= SMALL:
        walk.sizes[output] = tuple(size for part in parts for size in part)


def _add(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    sign = -1 if node.op_type == "Sub" else 1
    for value, other in ((0, 1), (1, 0)):
        flows, array = walk.flow(inputs[value]), walk.constants.get(inputs[other])
        if inputs[value] in walk.spans and (value == 0 or sign == 1) and inputs[other] in walk.weights:
            walk.spans[output] = walk.spans[inputs[value]]
        if not flows:
            continue
        if sign == -1 and value == 1:  # a constant minus the input
            if walk.number(inputs[0]) == 1:
                walk.facts.note(flows, "complement", "it is subtracted from 1")
                walk.put(output, walk.changed(inputs[1], "complement"))
        elif array is not None and array.size and array.dtype.kind in "iu":
            low, high = sorted((sign * int(array.min()), sign * int(array.max())))
            walk.put(output, [replace(f, low=f.low + low, high=f.high + high) for f in flows if f.state == "plain"])


def _mul(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    for value, other in ((0, 1), (1, 0)):
        flows = walk.flow(inputs[value])
        if not flows:
            continue
        number = walk.number(inputs[other])
        if number == 1:
            walk.put(output, flows)
        elif inputs[other] in walk.weights:
            if number is not None and number <= MASKED:
                done = [f for f in flows if f.state == "complement"]
                walk.facts.note(done, "penalty", "1 minus it is multiplied with a large negative number")
            walk.put(output, [replace(f, state="scaled") for f in flows if f.state in ("float", "plain")])
        else:
            walk.facts.note(flows, "factor", "it is multiplied with activations")


def _div(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    walk.facts.note([f for f in walk.flow(inputs[1]) if f.state == "plain"], "divisor", "it is a divisor")


# -- operators that say what values mean -----------------------------------------------------------------------------


def _gather(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    data, indices = inputs[:2]
    axis = _attribute(node, "axis", 0)
    walk.index(indices, walk.axis(data, axis), _indexes(node, walk, data))
    walk.put(output, walk.flow(data))
    at = walk.constants.get(indices)
    if data in walk.sizes and at is not None and at.dtype.kind in "iu":
        held = walk.sizes[data]
        chosen = [int(i) for i in at.reshape(-1)]
        if all(-len(held) <= i < len(held) for i in chosen):
            walk.sizes[output] = tuple(held[i] for i in chosen)


def _gather_nd(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    depth = walk.axis(inputs[1], -1)
    first = _attribute(node, "batch_dims", 0)
    if isinstance(depth, int):
        for axis in range(first, first + depth):
            walk.index(inputs[1], walk.axis(inputs[0], axis), _indexes(node, walk, inputs[0]))


def _elements(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    walk.index(inputs[1], walk.axis(inputs[0], _attribute(node, "axis", 0)), _indexes(node, walk, inputs[0]))


def _one_hot(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    walk.index(inputs[0], walk.size_of(inputs[1]), f"it is the index of OneHot with depth {walk.size_of(inputs[1])}")


def _embed_layer(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    """EmbedLayerNormalization (com.microsoft): ids, segments, three tables, ..., mask, positions."""
    inputs = inputs + [""] * (9 - len(inputs))
    for ids, table in ((0, 2), (1, 4), (8, 3)):
        if inputs[ids]:
            walk.index(inputs[ids], walk.axis(inputs[table], 0), _indexes(node, walk, inputs[table]))
    length, rows = walk.axis(inputs[0], 1), walk.axis(inputs[3], 0)
    if isinstance(length, str):
        walk.facts.limit(length, rows)
    walk.facts.note(walk.flow(inputs[7]), "flag", f"it is the mask of {node.op_type}")
    if inputs[8]:
        walk.facts.note(walk.flow(inputs[8]), "position", f"it is the position of {node.op_type}")


def _rotary(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    """RotaryEmbedding (com.microsoft): x, positions, cosines, sines."""
    walk.index(inputs[1], walk.axis(inputs[2], 0), _indexes(node, walk, inputs[2]))
    walk.facts.note(walk.flow(inputs[1]), "position", f"it is the position of {node.op_type}")


def _group_query(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    """GroupQueryAttention (com.microsoft): some inputs count the keys, past and new ones."""
    inputs = inputs + [""] * (7 - len(inputs))
    new, past = walk.axis(inputs[0], 1), walk.axis(inputs[3], 2)
    if isinstance(new, str) and isinstance(past, (str, int)):
        walk.facts.note(walk.flow(inputs[5]), "equal", f"{past} + {new} - 1")
        walk.facts.note(walk.flow(inputs[6]), "equal", f"{past} + {new}")


def _compare(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    for value, other in ((0, 1), (1, 0)):
        flows = walk.flow(inputs[value])
        if not flows:
            continue
        number = walk.number(inputs[other])
        if number is not None and 0 <= number <= 1:
            plain = [f for f in flows if f.state in ("plain", "float") and f.low == f.high == 0]
            walk.facts.note(plain, "flag", f"it is compared with {number:g}")
            zero = number == 0 and node.op_type == "Equal"
            walk.put(output, [replace(f, state="flag", inverted=zero) for f in flows])
        elif inputs[other] in walk.spans:
            kind = "choice" if node.op_type == "Equal" else "length"
            walk.facts.note(flows, kind, walk.spans[inputs[other]])


def _not(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    walk.put(output, [replace(f, state="flag", inverted=not f.inverted) for f in walk.flow(inputs[0])])


def _either(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    for name in inputs:
        walk.put(output, walk.flow(name))


def _where(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    condition, chosen, other = inputs
    hidden = [(walk.number(name) or 0) <= MASKED for name in (chosen, other)]
    for flow in walk.flow(condition):
        if hidden[0] != hidden[1]:  # true hides a score, or keeps it
            hides = hidden[0] != flow.inverted
            walk.facts.note([flow], "hides" if hides else "keeps", "it chooses the scores that are masked")
        else:
            walk.facts.note([flow], "condition", "it is a condition of Where")
    for name in (chosen, other):
        walk.put(output, walk.flow(name))


def _angle(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    scaled = [f for f in walk.flow(inputs[0]) if f.state == "scaled"]
    walk.facts.note(scaled, "position", f"it goes into {node.op_type}")


def _matmul(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    for value, other in ((0, 1), (1, 0)) if len(inputs) == 2 else ():  # an Einsum may have one, or many
        if inputs[other] in walk.weights:
            walk.put(output, [replace(f, state="scaled") for f in walk.flow(inputs[value]) if f.state == "float"])


def _sum(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    flows = [f for f in walk.flow(inputs[0]) if f.state != "flag"]
    walk.facts.note(flows, "counted", f"it is summed up by {node.op_type}")


def _nonzero(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    walk.facts.note(walk.flow(inputs[0]), "flag", "its nonzero places are looked for")


def _recurrent(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    if len(inputs) > 4 and inputs[4]:
        size = walk.axis(inputs[0], 1 if _attribute(node, "layout", 0) else 0)
        walk.facts.note(walk.flow(inputs[4]), "length", str(size or ""))


def _reverse(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    size = walk.axis(inputs[0], _attribute(node, "time_axis", 0))
    walk.facts.note(walk.flow(inputs[1]), "length", str(size or ""))


# -- operators whose inputs are sizes --------------------------------------------------------------------------------


def _shape(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    shape = walk.shapes.get(inputs[0])
    if shape is not None:
        walk.sizes[output] = shape[_attribute(node, "start", 0) : _attribute(node, "end", len(shape))]


def _range(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    start, limit, step = inputs
    size = walk.size_of(limit)
    if walk.number(start) == 0 and walk.number(step) == 1 and isinstance(size, str):
        walk.spans[output] = size
    walk.facts.note(walk.flow(limit), "count", "it is the end of a Range")


def _slice(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    data = inputs[0]
    walk.put(output, walk.flow(data))
    for bound in inputs[1:3]:
        walk.facts.note(walk.flow(bound), "count", "it is where a Slice begins or ends")
    if len(inputs) < 3:
        return
    starts, ends = walk.constants.get(inputs[1]), inputs[2]
    axes = walk.constants.get(inputs[3]) if len(inputs) > 3 and inputs[3] else None
    if data in walk.sizes and starts is not None and walk.constants.get(ends) is not None and starts.size == 1:
        step = int(walk.number(inputs[4]) or 1) if len(inputs) > 4 else 1
        walk.sizes[output] = walk.sizes[data][
            int(starts.reshape(-1)[0]) : int(walk.constants[ends].reshape(-1)[0]) : step
        ]
    end = walk.size_of(ends)
    if data in walk.weights and isinstance(end, str) and axes is not None and axes.size == 1:
        walk.facts.limit(end, walk.axis(data, int(axes.reshape(-1)[0])))


def _sized(position: int, kind: str) -> Visit:
    def visit_sizes(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
        if position < len(inputs):
            walk.facts.note(walk.flow(inputs[position]), kind, f"it is a size for {node.op_type}")
        if position:
            _pass(walk, node, inputs, output)

    return visit_sizes


def _constant(walk: Walk, node: Any, inputs: list[str], output: str) -> None:
    import onnx

    walk.weights.add(output)
    value = next((onnx.helper.get_attribute_value(a) for a in node.attribute), None)
    if isinstance(value, onnx.TensorProto):
        walk.shapes.setdefault(output, tuple(value.dims))
        if int(np.prod(value.dims)) <= SMALL and value.data_location != onnx.TensorProto.EXTERNAL:
            walk.constants[output] = onnx.numpy_helper.to_array(value)
    elif isinstance(value, (int, float, list, tuple)):
        walk.constants[output] = np.asarray(value)


def _indexes(node: Any, walk: Walk, data: str) -> str:
    shape = ", ".join(str(size if size is not None else "?") for size in walk.shapes.get(data, ()))
    return f"it indexes {data} [{shape}] in {node.op_type}"


_HANDLERS: dict[str, Visit] = {
    **dict.fromkeys(
        "Identity Squeeze Unsqueeze Flatten Transpose Split Dropout DequantizeLinear".split(), _pass
    ),
    "Reshape": _sized(1, "shape"), "Expand": _sized(1, "shape"), "ConstantOfShape": _sized(0, "shape"),
    "Tile": _sized(1, "count"), "TopK": _sized(1, "count"), "Loop": _sized(0, "count"), "Pad": _sized(1, "shape"),
    "Resize": _sized(3, "shape"),
    "Cast": _cast, "Concat": _concat, "Add": _add, "Sub": _add, "Mul": _mul, "Div": _div, "Mod": _div,
    "Gather": _gather, "GatherBlockQuantized": _gather, "GatherElements": _elements, "ScatterElements": _elements,
    "GatherND": _gather_nd, "ScatterND": _gather_nd, "OneHot": _one_hot, "EmbedLayerNormalization": _embed_layer,
    "RotaryEmbedding": _rotary, "GroupQueryAttention": _group_query,
    **dict.fromkeys("Equal Less LessOrEqual Greater GreaterOrEqual".split(), _compare),
    "Not": _not, "And": _either, "Or": _either, "Where": _where, "Cos": _angle, "Sin": _angle, "MatMul": _matmul,
    "Einsum": _matmul, "CumSum": _sum, "ReduceSum": _sum, "NonZero": _nonzero,
    "LSTM": _recurrent, "GRU": _recurrent, "RNN": _recurrent, "ReverseSequence": _reverse,
    "Shape": _shape, "Range": _range, "Slice": _slice, "Constant": _constant,
}  # fmt: skip
