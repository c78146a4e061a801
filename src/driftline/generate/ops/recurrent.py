"""Recurrent cells, and whole sequences of one layer.

The weights and the order of gates are those of torch; the ONNX forms reorder them (input, output, forget, cell; for a
GRU update, reset, hidden) inside the model, where a compiler may fold the reordering.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import FLOATS, Attributes, Draw, Form, Invalid, Need, Operator, Types, Use
from driftline.generate.ops.rules import Drawn, not_empty

ONNX_FLOATS = ("float32", "float64", "float16")

# For each kind: its name in ONNX, which gate of torch stands where in ONNX, and how many states are carried along
_KINDS = {
    "lstm": ("LSTM", (0, 3, 1, 2), 2),
    "gru": ("GRU", (1, 0, 2), 1),
    "rnn_tanh": ("RNN", (0,), 1),
}


def _draw(kind: str, sequence: bool) -> Any:
    def drawn(draw: Draw, first: TensorType) -> Drawn:
        _, order, states = _KINDS[kind]
        *_, batch, width = first.shape
        hidden = draw.integer(1, 6)
        gates = len(order) * hidden
        state = first.with_shape((1, batch, hidden) if sequence else (batch, hidden))
        weights = ((gates, width), (gates, hidden), (gates,), (gates,))
        parameters = [Need(first.with_shape(shape), prefer="parameter") for shape in weights]
        return [*[Need(state)] * states, *parameters], {}

    return drawn


def _infer(kind: str, sequence: bool) -> Any:
    def infer(types: Types, attributes: Attributes) -> Types:
        _, order, states = _KINDS[kind]
        *steps, batch, width = types[0].shape
        state, hidden = types[1], types[1].shape[-1]
        gates = len(order) * hidden
        want = [*[((1,) if sequence else ()) + (batch, hidden)] * states]
        want += [(gates, width), (gates, hidden), (gates,), (gates,)]
        if [t.shape for t in types[1:]] != want or len({t.dtype for t in types}) > 1:
            raise Invalid("the states or the weights do not fit")
        carried = (state,) * states
        return (types[0].with_shape((*steps, batch, hidden)), *carried) if sequence else carried

    return infer


def _torch_cell(kind: str) -> Any:
    def emit(u: Use) -> str:
        states = _KINDS[kind][2]
        first, *rest = u.inputs
        state = f"({', '.join(rest[:states])})" if states > 1 else rest[0]
        return f"torch.{kind}_cell({first}, {state}, {', '.join(rest[states:])})"

    return emit


def _torch_sequence(kind: str) -> Any:
    def emit(u: Use) -> str:
        states = _KINDS[kind][2]
        first, *rest = u.inputs
        state = f"({', '.join(rest[:states])})" if states > 1 else rest[0]
        # With biases, one layer, no dropout, not training, one direction, time first
        return f"torch.{kind}({first}, {state}, [{', '.join(rest[states:])}], True, 1, 0.0, False, False, False)"

    return emit


def _reordered(w: Any, value: str, order: Sequence[int]) -> Any:
    if len(order) == 1:
        return value
    parts = w.node("Split", value, outputs=len(order), axis=0, num_outputs=len(order))
    return w.node("Concat", *(parts[at] for at in order), axis=0)


def _onnx(kind: str, sequence: bool) -> Any:
    def emit(w: Any, u: Use) -> Any:
        name, order, states = _KINDS[kind]
        zero = w.ints([0])
        first, carried, weights = u.inputs[0], list(u.inputs[1 : 1 + states]), u.inputs[1 + states :]
        if not sequence:
            first, *carried = (w.node("Unsqueeze", value, zero) for value in (first, *carried))
        wide = [_reordered(w, value, order) for value in weights]
        bias = w.node("Concat", *wide[2:], axis=0)
        given = [w.node("Unsqueeze", value, zero) for value in (*wide[:2], bias)]
        more = {"linear_before_reset": 1} if kind == "gru" else {}
        hidden = u.types[1].shape[-1]
        every, *last = w.node(name, first, *given, "", *carried, outputs=1 + states, hidden_size=hidden, **more)
        if sequence:
            return [w.node("Squeeze", every, w.ints([1])), *last]
        return [w.node("Squeeze", value, zero) for value in last]

    return emit


def _jnp_lstm(u: Use) -> str:
    x, h, c, w, r, b, d = u.inputs
    gates = f"jnp.split({x} @ {w}.T + {b} + {h} @ {r}.T + {d}, 4, -1)"
    cell = f"jax.nn.sigmoid(f) * {c} + jax.nn.sigmoid(i) * jnp.tanh(g)"
    return f"(lambda i, f, g, o: (lambda c: (jax.nn.sigmoid(o) * jnp.tanh(c), c))({cell}))(*{gates})"


def _jnp_gru(u: Use) -> str:
    x, h, w, r, b, d = u.inputs
    new = "(lambda z, n: (1 - z) * n + z * h)(jax.nn.sigmoid(xz + hz), jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn))"
    parts = f"*jnp.split({x} @ {w}.T + {b}, 3, -1), *jnp.split({h} @ {r}.T + {d}, 3, -1), {h}"
    return f"(lambda xr, xz, xn, hr, hz, hn, h: {new})({parts})"


_jnp_rnn = "jnp.tanh({0} @ {2}.T + {4} + {1} @ {3}.T + {5})"

_CELLS: dict[str, Any] = {"lstm": _jnp_lstm, "gru": _jnp_gru, "rnn_tanh": _jnp_rnn}

OPERATORS = [
    *(
        Operator(
            f"{kind}_cell", _infer(kind, False), _draw(kind, False),
            Form(_torch_cell(kind), FLOATS), Form(_onnx(kind, False), ONNX_FLOATS), Form(_CELLS[kind], FLOATS),
            rank=(2, 2), fits=not_empty,
        )
        for kind in _KINDS
    ),
    *(
        Operator(
            f"{kind}_sequence", _infer(kind, True), _draw(kind, True),
            Form(_torch_sequence(kind), FLOATS), Form(_onnx(kind, True), ONNX_FLOATS),
            rank=(3, 3), fits=lambda first: first.size > 0 and first.shape[0] <= 8,
        )
        for kind in _KINDS
    ),
]  # fmt: skip
