"""How much memory inputs and results may take in the parent process, derived from the --memory of a check.

The parent makes inputs and judges results itself. A file of a hundred bytes can declare terabytes of either, so sizes
are checked before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from driftline.core.errors import DriftlineError, TooLarge
from driftline.core.quoting import one_line
from driftline.core.tensors import MOST_AXES, TensorSpec, bytes_of, in_bytes

INPUTS_SHARE = 8  # of the memory for one target: it holds its inputs, and computes with them
RESULTS_SHARE = 32  # a result is held several times: by the reference, in float64, with noise, and by each target
ROOM = (8 << 30) // INPUTS_SHARE


def room_for_inputs(memory_limit: int) -> int:
    return memory_limit // INPUTS_SHARE


def room_for_results(memory_limit: int) -> int:
    return memory_limit // RESULTS_SHARE


def require_room_for_value(spec: TensorSpec, name: str, memory_limit: int) -> None:
    """Raise TooLarge if a value of the program needs more memory than a worker has: the reference computes it in
    float64."""
    needed = bytes_of([replace(spec, dtype="float64")])
    if needed >= memory_limit:
        shape = ", ".join(str(size) for size in spec.shape)
        raise TooLarge(
            f"{name} computes {one_line(spec.name, 60)!r} of the shape [{shape}], which takes {in_bytes(needed)} in"
            f" double precision, and {in_bytes(memory_limit)} may be used. Give smaller sizes, or raise --memory."
        )


def require_room(specs: Sequence[TensorSpec], room: int) -> None:
    """Raise an error for inputs with impossible shapes, or that take more than `room` bytes."""
    for spec in specs:
        if len(spec.shape) > MOST_AXES or any(size < 0 for size in spec.shape):
            raise DriftlineError(
                f"There is no tensor of the shape of {spec}: sizes are 0 or more, and there are at most {MOST_AXES}."
                " Give other sizes with --dim or --shape, or export the model again."
            )
    total = bytes_of(specs)
    if total > room:
        largest = max(specs, key=lambda spec: bytes_of([spec]))
        raise TooLarge(
            f"The inputs would take {in_bytes(total)} ({largest}), and {in_bytes(room)} may be used. Give smaller sizes"
            " with --dim or --shape, or raise --memory."
        )
