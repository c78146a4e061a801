"""The player's If, Loop, Scan, sequences and optionals."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from driftline.programs.onnx.player.call import NodeCall, Unplayable, integers, onnx_op, torch_dtype


@onnx_op("If")
def if_(call: NodeCall, condition: Tensor) -> Any:
    branch = call.attr("then_branch") if bool(condition.reshape(()).item()) else call.attr("else_branch")
    return tuple(call.play_block(branch, []))


@onnx_op("Loop")
def loop(call: NodeCall, most: Tensor | None = None, condition: Tensor | None = None, *carried: Any) -> Any:
    body = call.attr("body")
    state = list(carried)
    rows: list[list[Tensor]] = []
    limit = None if most is None else int(most)
    go_on = True if condition is None else bool(condition.reshape(()).item())
    number = 0
    while go_on and (limit is None or number < limit):
        made = call.play_block(body, [torch.tensor(number), torch.tensor(True), *state])
        go_on = bool(made[0].reshape(()).item())
        state = made[1 : 1 + len(state)]
        rows.append(made[1 + len(state) :])
        number += 1
    count = len(call.outputs) - len(state)
    scans = [
        torch.stack([row[at] for row in rows]) if rows else _nothing(body.declared[1 + len(state) + at])
        for at in range(count)
    ]
    return (*state, *scans)


def _nothing(declared: Any) -> Tensor:
    """Return the empty result of a loop without iterations, with the type that the body declares."""
    kind = declared.type.tensor_type
    sizes = [dim.dim_value for dim in kind.shape.dim]
    return torch.zeros((0, *sizes), dtype=torch_dtype(kind.elem_type))


@onnx_op("Scan")
def scan(call: NodeCall, *inputs: Any) -> Any:
    body = call.attr("body")
    count = call.attr("num_scan_inputs")
    if call.opset < 9:
        raise Unplayable("Scan before opset 9")
    state, series = list(inputs[: len(inputs) - count]), list(inputs[len(inputs) - count :])
    outputs = len(body.outputs) - len(state)
    in_axes = call.ints("scan_input_axes", [0] * count) or []
    backwards = call.ints("scan_input_directions", [0] * count) or []
    out_axes = call.ints("scan_output_axes", [0] * outputs) or []
    reversed_out = call.ints("scan_output_directions", [0] * outputs) or []
    steps = series[0].shape[in_axes[0]]
    rows: list[list[Tensor]] = []
    for number in range(steps):
        now = [
            x.select(axis, steps - 1 - number if back else number)
            for x, axis, back in zip(series, in_axes, backwards, strict=True)
        ]
        made = call.play_block(body, [*state, *now])
        state = made[: len(state)]
        rows.append(made[len(state) :])
    stacked = [
        torch.stack([row[at] for row in (reversed(rows) if reversed_out[at] else rows)], dim=out_axes[at])
        for at in range(outputs)
    ]
    return (*state, *stacked)


# -- sequences -------------------------------------------------------------------------------------------------------


@onnx_op("SequenceConstruct")
def sequence_construct(call: NodeCall, *items: Tensor) -> list[list[Tensor]]:
    return [list(items)]


@onnx_op("SequenceEmpty")
def sequence_empty(call: NodeCall) -> list[list[Tensor]]:
    return [[]]


@onnx_op("SequenceAt")
def sequence_at(call: NodeCall, sequence: list[Tensor], place: Tensor) -> Tensor:
    return sequence[int(place)]


@onnx_op("SequenceInsert")
def sequence_insert(
    call: NodeCall, sequence: list[Tensor], item: Tensor, place: Tensor | None = None
) -> list[list[Tensor]]:
    at = len(sequence) if place is None else int(place)
    at = at + len(sequence) if at < 0 else at
    return [[*sequence[:at], item, *sequence[at:]]]


@onnx_op("SequenceErase")
def sequence_erase(call: NodeCall, sequence: list[Tensor], place: Tensor | None = None) -> list[list[Tensor]]:
    at = (-1 if place is None else int(place)) % len(sequence)
    return [[*sequence[:at], *sequence[at + 1 :]]]


@onnx_op("SequenceLength")
def sequence_length(call: NodeCall, sequence: list[Tensor]) -> Tensor:
    return torch.tensor(len(sequence), dtype=torch.int64)


@onnx_op("ConcatFromSequence")
def concat_from_sequence(call: NodeCall, sequence: list[Tensor]) -> Tensor:
    axis = call.attr("axis")
    return torch.stack(sequence, axis) if call.attr("new_axis", 0) else torch.cat(sequence, axis)


@onnx_op("SplitToSequence")
def split_to_sequence(call: NodeCall, x: Tensor, sizes: Tensor | None = None) -> list[list[Tensor]]:
    axis = call.attr("axis", 0)
    if sizes is None:
        parts = list(x.split(1, axis))
        return [parts if call.attr("keepdims", 1) else [part.squeeze(axis) for part in parts]]
    counts = integers(sizes) or []
    return [list(x.split(counts[0] if sizes.dim() == 0 else counts, axis))]


@onnx_op("SequenceMap")
def sequence_map(call: NodeCall, sequence: list[Tensor], *more: Any) -> list[Any]:
    made = [
        call.play_block(call.attr("body"), [item, *(m[at] if isinstance(m, list) else m for m in more)])
        for at, item in enumerate(sequence)
    ]
    return [[row[at] for row in made] for at in range(len(call.outputs))]


@onnx_op("Optional")
def optional(call: NodeCall, x: Any = None) -> list[Any]:
    return [x]


@onnx_op("OptionalGetElement")
def optional_get_element(call: NodeCall, x: Any) -> list[Any]:
    return [x]


@onnx_op("OptionalHasElement")
def optional_has_element(call: NodeCall, x: Any = None) -> Tensor:
    return torch.tensor(x is not None)
