"""The player's RNN, GRU and LSTM: step by step, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from driftline.programs.onnx.player.call import NodeCall, Unplayable, onnx_op

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class RecurrentInputs:
    """The inputs of RNN and GRU, and the first inputs of LSTM."""

    x: Tensor
    w: Tensor  # weights of the input
    r: Tensor  # weights of the state
    bias: Tensor | None = None
    lengths: Tensor | None = None
    start: Tensor | None = None  # the first state


@dataclass(frozen=True)
class LstmInputs(RecurrentInputs):
    """The inputs of LSTM."""

    cell: Tensor | None = None  # the first state of the cell
    peepholes: Tensor | None = None


def _functions(call: NodeCall, defaults: list[str], direction: int) -> list[Function]:
    names = [n.decode() for n in call.attr("activations", [])] or defaults * 2
    if call.attr("activation_alpha") or call.attr("activation_beta"):
        raise Unplayable(f"{call.op_type} with parameters of its activations")
    known = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu}
    chosen = names[direction * len(defaults) : (direction + 1) * len(defaults)]
    if any(name.lower() not in known for name in chosen):
        raise Unplayable(f"{call.op_type} with the activations {', '.join(chosen)}")
    clip = call.attr("clip")

    def clipped(function: Any) -> Function:
        return (lambda x: function(torch.clamp(x, -clip, clip))) if clip else function

    return [clipped(known[name.lower()]) for name in chosen]


def _played(
    call: NodeCall, given: RecurrentInputs, states: list[Tensor | None], hidden: int,
    make_step: Callable[[int], Callable[[Tensor, list[Tensor]], list[Tensor]]],
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """Return all outputs (time, direction, batch, hidden) and the last state of each kind."""
    x, lengths = given.x, given.lengths
    kind = call.attr("direction", b"forward").decode()
    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[kind]
    if call.attr("layout", 0):
        x = x.transpose(0, 1)
        states = [state if state is None else state.transpose(0, 1) for state in states]
    steps, batch = x.shape[0], x.shape[1]
    counts = torch.full((batch,), steps) if lengths is None else lengths.to(torch.int64)
    outputs, last = [], []
    for number, backwards in enumerate(directions):
        step = make_step(number)
        state = [torch.zeros(batch, hidden, dtype=x.dtype) if s is None else s[number] for s in states]
        made: list[Tensor] = [torch.zeros(0)] * steps
        for time in reversed(range(steps)) if backwards else range(steps):
            active = (time < counts).unsqueeze(1)
            after = step(x[time], state)
            full = lengths is None
            state = after if full else [torch.where(active, new, old) for new, old in zip(after, state, strict=True)]
            made[time] = state[0] if full else torch.where(active, state[0], torch.zeros_like(state[0]))
        outputs.append(torch.stack(made))
        last.append(state)
    together = torch.stack(outputs, dim=1)
    finals = [torch.stack([state[index] for state in last]) for index in range(len(states))]
    if call.attr("layout", 0):
        together, finals = together.permute(2, 0, 1, 3), [final.transpose(0, 1) for final in finals]
    return together, finals


def _bias(bias: Tensor | None, number: int, gates: int, hidden: int, like: Tensor) -> tuple[Tensor, Tensor]:
    if bias is None:
        zero = torch.zeros(gates * hidden, dtype=like.dtype)
        return zero, zero
    return bias[number][: gates * hidden], bias[number][gates * hidden :]


@onnx_op("RNN", inputs=RecurrentInputs)
def rnn(call: NodeCall, given: RecurrentInputs) -> Any:
    w, r, hidden = given.w, given.r, given.r.shape[-1]

    def make_step(number: int) -> Any:
        (activation,) = _functions(call, ["Tanh"], number)
        of_input, of_state = _bias(given.bias, number, 1, hidden, given.x)

        def step(now: Tensor, state: list[Tensor]) -> list[Tensor]:
            return [activation(now @ w[number].t() + of_input + state[0] @ r[number].t() + of_state)]

        return step

    together, finals = _played(call, given, [given.start], hidden, make_step)
    return (together, finals[0])[: len(call.outputs)]


@onnx_op("GRU", inputs=RecurrentInputs)
def gru(call: NodeCall, given: RecurrentInputs) -> Any:
    w, r, hidden = given.w, given.r, given.r.shape[-1]
    reset_first = call.attr("linear_before_reset", 0)

    def make_step(number: int) -> Any:
        gate, candidate = _functions(call, ["Sigmoid", "Tanh"], number)
        of_input, of_state = _bias(given.bias, number, 3, hidden, given.x)
        weights = r[number].split(hidden)

        def step(now: Tensor, state: list[Tensor]) -> list[Tensor]:
            parts = (now @ w[number].t() + of_input).split(hidden, dim=1)
            biases = of_state.split(hidden)
            update = gate(parts[0] + state[0] @ weights[0].t() + biases[0])
            reset = gate(parts[1] + state[0] @ weights[1].t() + biases[1])
            if reset_first:
                inner = reset * (state[0] @ weights[2].t() + biases[2])
            else:
                inner = (reset * state[0]) @ weights[2].t() + biases[2]
            return [(1 - update) * candidate(parts[2] + inner) + update * state[0]]

        return step

    together, finals = _played(call, given, [given.start], hidden, make_step)
    return (together, finals[0])[: len(call.outputs)]


@onnx_op("LSTM", inputs=LstmInputs)
def lstm(call: NodeCall, given: LstmInputs) -> Any:
    w, r, hidden = given.w, given.r, given.r.shape[-1]
    if call.attr("input_forget", 0):
        raise Unplayable("LSTM with coupled input and forget gates")

    def make_step(number: int) -> Any:
        gate, candidate, out = _functions(call, ["Sigmoid", "Tanh", "Tanh"], number)
        of_input, of_state = _bias(given.bias, number, 4, hidden, given.x)
        peep = given.peepholes[number].split(hidden) if given.peepholes is not None else None

        def step(now: Tensor, state: list[Tensor]) -> list[Tensor]:
            before, memory = state
            i, o, f, c = (now @ w[number].t() + of_input + before @ r[number].t() + of_state).split(hidden, dim=1)
            i, f = (gate(i), gate(f)) if peep is None else (gate(i + peep[0] * memory), gate(f + peep[2] * memory))
            memory = f * memory + i * candidate(c)
            o = gate(o if peep is None else o + peep[1] * memory)
            return [o * out(memory), memory]

        return step

    together, finals = _played(call, given, [given.start, given.cell], hidden, make_step)
    return (together, *finals)[: len(call.outputs)]
