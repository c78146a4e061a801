"""RNN, GRU and LSTM step by step, from the operator specification: with all activations, clipping, peepholes and
sequence lengths.

The shadow (the oracle's float64 run) adds rounding errors to each step: an error in the state is carried on, so no
formula for the whole operator would be sound. The evaluator's corrections use the plain steps (`PlainSteps`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from driftline.core.tensors import Array


class RecurrentSteps(Protocol):
    """The arithmetic of a recurrent cell."""

    def round(self, result: Array) -> Array: ...
    def function(self, result: Array, through: float = 0.0) -> Array: ...
    def total(self, products: Sequence[tuple[Array, Array]], *addends: Array) -> Array: ...


class PlainSteps:
    """Plain arithmetic, which adds no rounding errors."""

    def round(self, result: Array) -> Array:
        return result

    def function(self, result: Array, through: float = 0.0) -> Array:
        return result

    def total(self, products: Sequence[tuple[Array, Array]], *addends: Array) -> Array:
        """Return the sum of some matrix products and of numbers that are added to them."""
        return np.asarray(sum((*(left @ right for left, right in products), *addends)))


Activation = Callable[[Array], Array]
Cell = Callable[[Array, Array, Array | None], tuple[Array, Array | None]]
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_ACTIVATIONS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
# name -> default alpha, default beta; None where the activation takes none
_PARAMETERS: dict[str, tuple[float | None, float | None]] = {
    "affine": (1.0, 0.0),
    "elu": (1.0, None),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01, None),
    "scaledtanh": (1.0, 1.0),
    "thresholdedrelu": (1.0, None),
}


def _activation(steps: RecurrentSteps, name: str, alpha: float, beta: float) -> Activation:
    """Return an activation by its name in the standard, ignoring case. Cells share one exponential among their gates:
    tanh(x) is often computed as 2 sigmoid(2x) - 1, so its error is that of a number of size one."""
    table: dict[str, Activation] = {
        "affine": lambda x: steps.round(alpha * x + beta),
        "elu": lambda x: np.where(x < 0, steps.function(alpha * np.expm1(np.minimum(x, 0.0)), alpha), x),
        "hardsigmoid": lambda x: np.clip(steps.round(alpha * x + beta), 0.0, 1.0),
        "leakyrelu": lambda x: np.where(x < 0, steps.round(alpha * x), x),
        "relu": lambda x: np.maximum(x, 0.0),
        "scaledtanh": lambda x: steps.function(alpha * np.tanh(beta * x), abs(alpha)),
        "sigmoid": lambda x: steps.function(1.0 / (1.0 + np.exp(-x)), 1.0),
        "softplus": lambda x: steps.function(np.logaddexp(0.0, x), 1.0),
        "softsign": lambda x: steps.round(x / (1.0 + np.abs(x))),
        "tanh": lambda x: steps.function(np.tanh(x), 1.0),
        "thresholdedrelu": lambda x: np.where(x > alpha, x, 0.0),
    }
    return table[name.lower()]


def _activations(steps: RecurrentSteps, names: list[str], attributes: dict[str, Any]) -> Iterator[Activation]:
    """Yield the activations. Their alpha and beta are consumed in order, by activations with such parameters."""
    alphas, betas = (list(attributes.get(f"activation_{which}") or ()) for which in ("alpha", "beta"))
    clip = attributes.get("clip")
    for name in names:
        alpha, beta = _PARAMETERS.get(name.lower(), (None, None))
        alpha = alphas.pop(0) if alpha is not None and alphas else alpha
        beta = betas.pop(0) if beta is not None and betas else beta
        yield _clipped(_activation(steps, name, alpha or 0.0, beta or 0.0), clip)


def _clipped(function: Activation, clip: float | None) -> Activation:
    if not clip:
        return function
    limit = float(clip)
    return lambda x: function(np.clip(x, -limit, limit))


def _rnn(steps: RecurrentSteps, parts: dict[str, Array], acts: list[Activation], attributes: dict[str, Any]) -> Cell:
    def cell(x: Array, h: Array, c: Array | None) -> tuple[Array, Array | None]:
        return acts[0](steps.total([(x, parts["w"].T), (h, parts["r"].T)], parts["wb"], parts["rb"])), c

    return cell


def _gru(steps: RecurrentSteps, parts: dict[str, Array], acts: list[Activation], attributes: dict[str, Any]) -> Cell:
    wz, wr, wh = np.split(parts["w"], 3)
    rz, rr, rh = np.split(parts["r"], 3)
    wbz, wbr, wbh = np.split(parts["wb"], 3)
    rbz, rbr, rbh = np.split(parts["rb"], 3)
    f, g = acts
    linear = attributes.get("linear_before_reset")

    def cell(x: Array, h: Array, c: Array | None) -> tuple[Array, Array | None]:
        z = f(steps.total([(x, wz.T), (h, rz.T)], wbz, rbz))
        r = f(steps.total([(x, wr.T), (h, rr.T)], wbr, rbr))
        if linear:
            hidden = steps.round(r * steps.total([(h, rh.T)], rbh))
        else:
            hidden = steps.total([(steps.round(r * h), rh.T)], rbh)
        new = g(steps.total([(x, wh.T)], hidden, wbh))
        return steps.round(steps.round((1.0 - z) * new) + steps.round(z * h)), c

    return cell


def _lstm(steps: RecurrentSteps, parts: dict[str, Array], acts: list[Activation], attributes: dict[str, Any]) -> Cell:
    f, g, h_of = acts
    p_i, p_o, p_f = np.split(parts["p"], 3)
    coupled = attributes.get("input_forget")

    def cell(x: Array, h: Array, c: Array | None) -> tuple[Array, Array | None]:
        assert c is not None
        gates = steps.total([(x, parts["w"].T), (h, parts["r"].T)], parts["wb"], parts["rb"])
        gate_i, gate_o, gate_f, gate_c = np.split(gates, 4, axis=-1)
        i = f(steps.total([], gate_i, p_i * c))
        forget = steps.round(1.0 - i) if coupled else f(steps.total([], gate_f, p_f * c))
        new = steps.round(steps.round(forget * c) + steps.round(i * g(gate_c)))
        o = f(steps.total([], gate_o, p_o * new))
        return steps.round(o * h_of(new)), new

    return cell


RECURRENT = ("RNN", "GRU", "LSTM")
_CELLS = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}


def _walk(cell: Cell, x: Array, h: Array, c: Array | None, lengths: Array, reverse: bool) -> Any:
    """Run one direction. Beyond its length a sequence keeps its state and outputs zeros."""
    outputs = np.zeros((*x.shape[:2], h.shape[-1]))
    batch = np.arange(x.shape[1])
    for time in range(x.shape[0]):
        active = time < lengths
        place = np.where(active, lengths - 1 - time if reverse else time, 0)
        new_h, new_c = cell(x[place, batch], h, c)
        h = np.where(active[:, None], new_h, h)
        if c is not None and new_c is not None:
            c = np.where(active[:, None], new_c, c)
        outputs[place[active], batch[active]] = new_h[active]
    return outputs, h, c


def run_recurrent(steps: RecurrentSteps, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Array, ...]:
    name = node.op_type
    given = [*inputs, *[None] * (8 - len(inputs))]
    x, w, r, bias, lengths, initial_h, initial_c, peepholes = given
    batch_first = bool(attributes.get("layout"))
    if batch_first:
        x = np.swapaxes(x, 0, 1)
        initial_h, initial_c = (None if s is None else np.swapaxes(s, 0, 1) for s in (initial_h, initial_c))
    directions, gates, hidden = w.shape[0], _GATES[name], r.shape[-1]
    batch = x.shape[1]
    initial_h, initial_c = (_or_zeros(s, (directions, batch, hidden)) for s in (initial_h, initial_c))
    bias = _or_zeros(bias, (directions, 2 * gates * hidden))
    peepholes = _or_zeros(peepholes, (directions, 3 * hidden))
    lengths = np.full(batch, x.shape[0]) if lengths is None else np.asarray(lengths).astype(np.int64)
    names = [_text(n) for n in attributes.get("activations") or ()] or list(_ACTIVATIONS[name] * directions)
    acts = list(_activations(steps, names, attributes))
    per_direction = len(_ACTIVATIONS[name])
    walks = []
    for d in range(directions):
        wb, rb = np.split(bias[d], 2)
        parts = {"w": w[d], "r": r[d], "wb": wb, "rb": rb, "p": peepholes[d]}
        own = (acts if len(acts) > per_direction else acts * directions)[d * per_direction : (d + 1) * per_direction]
        cell = _CELLS[name](steps, parts, own, attributes)
        backwards = d == 1 or _text(attributes.get("direction") or "forward") == "reverse"
        walks.append(_walk(cell, x, initial_h[d], initial_c[d] if name == "LSTM" else None, lengths, backwards))
    results = [np.stack([walk[0] for walk in walks], axis=1), np.stack([walk[1] for walk in walks])]
    if name == "LSTM":
        results.append(np.stack([walk[2] for walk in walks]))
    if batch_first:
        results = [np.transpose(results[0], (2, 0, 1, 3)), *[np.swapaxes(s, 0, 1) for s in results[1:]]]
    return tuple(results[: max(len(node.output), 1)])


def _or_zeros(given: Array | None, shape: tuple[int, ...]) -> Array:
    return np.zeros(shape) if given is None else given


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
