"""Real compilers with a fault planted into their results: `openvino:plant=off-by-one`. A plugin file.

Every built-in backend keeps its name and gets one more option. Without it, nothing changes; with it, the compiler runs
as always and its results are spoilt afterwards. So a failure is made right beside what the compiler really gets wrong,
under the compiler's own name: no cause may explain it (`driftline causes check`, benchmarks/causes.py).

    plant=FAULT           in every result
    plant=FAULT@DTYPE     only where an input or output has the dtype
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from driftline.backends import _BUILTIN, BACKENDS
from driftline.backends.base import Backend, Compiled, Option, Options
from driftline.core.errors import DriftlineError
from driftline.core.registry import import_string
from driftline.core.tensors import Array, Arrays, is_float
from driftline.core.text import did_you_mean
from driftline.programs.opened import OpenedProgram

# -- faults in one array -----------------------------------------------------------------------------------------------


def _off_by_one(array: Array) -> Array:
    return ~array if array.dtype == bool else (array + np.ones((), array.dtype)).astype(array.dtype)


def _doubled(array: Array) -> Array:
    return ~array if array.dtype == bool else (array + array + np.ones((), array.dtype)).astype(array.dtype)


def _negated(array: Array) -> Array:
    return ~array if array.dtype.kind in "bu" else (-array).astype(array.dtype)


def _one_element(array: Array) -> Array:
    """Change the middle element by a large amount."""
    if array.size:
        flat = array.reshape(-1)
        flat[array.size // 2] = _doubled(_off_by_one(flat[array.size // 2 : array.size // 2 + 1]))[0]
    return array


def _lost_channel(array: Array) -> Array:
    """Set the last channel (or the last element of a vector) to zero; elements that are zero become one."""
    if array.ndim:
        place = (slice(None), -1) if array.ndim > 1 else (-1,)
        array[place] = np.where(array[place] == 0, np.ones((), array.dtype), np.zeros((), array.dtype))
    return array


def _lost(array: Array, *, head: bool) -> Array:
    """Set the first (`head`) or last quarter of the last axis to zero; elements that are zero become one."""
    if array.ndim and array.shape[-1]:
        count = max(1, array.shape[-1] // 4)
        place = (..., slice(None, count) if head else slice(-count, None))
        array[place] = np.where(array[place] == 0, np.ones((), array.dtype), np.zeros((), array.dtype))
    return array


def _zeros(array: Array) -> Array:
    return np.zeros_like(array) if np.any(array != 0) else np.ones_like(array)


def _shuffled(array: Array) -> Array:
    return np.ascontiguousarray(array.reshape(-1)[::-1].reshape(array.shape))


def _set_first(array: Array, value: float) -> Array:
    if array.size and is_float(array.dtype.name):
        array.reshape(-1)[0] = value
    return array


def _nan_lost(array: Array) -> Array:
    if not is_float(array.dtype.name):
        return array
    return np.where(np.isnan(array), np.full((), 7, array.dtype), array)


def _wrong_dtype(array: Array) -> Array:
    wider = {"float32": "float64", "float64": "float32", "float16": "float32", "bool": "uint8", "int32": "int64"}
    return array.astype(wider.get(array.dtype.name, "float32"))


ARRAY_FAULTS: dict[str, Callable[[Array], Array]] = {
    "off-by-one": _off_by_one,
    "doubled": _doubled,
    "negated": _negated,
    "one-element": _one_element,
    "lost-channel": _lost_channel,
    "lost-tail": partial(_lost, head=False),
    "lost-head": partial(_lost, head=True),
    "zeros": _zeros,
    "shuffled": _shuffled,
    "nan-made": partial(_set_first, value=float("nan")),
    "nan-lost": _nan_lost,
    "infinity-made": partial(_set_first, value=float("inf")),
    "wrong-shape": lambda array: array[None],
    "wrong-dtype": _wrong_dtype,
}


# -- faults of the process ---------------------------------------------------------------------------------------------


def _raise() -> None:
    raise RuntimeError("a planted fault: the plan of this kernel has no entry for its second phase")


def _segfault() -> None:
    ctypes.string_at(0)


# name -> (action, True if it acts while running)
PROCESS_FAULTS: dict[str, tuple[Callable[[], None], bool]] = {
    "other-error": (_raise, False),
    "other-error-run": (_raise, True),
    "segfault": (_segfault, True),
    "abort": (os.abort, True),
}
PLANTS = (*ARRAY_FAULTS, *PROCESS_FAULTS)
_OPTION = Option(f"the fault that is planted: {', '.join(PLANTS)}; FAULT@DTYPE: only where that dtype occurs")


def _spoilt(honest: Compiled, fault: str, dtype: str, arrays: Arrays) -> Arrays:
    """Run the program and apply `fault` to its results; with `dtype`, only if an input or output has that dtype."""
    if fault in PROCESS_FAULTS:
        act, running = PROCESS_FAULTS[fault]
        if running and (not dtype or any(array.dtype.name == dtype for array in arrays.values())):
            act()
        return honest(arrays)
    outputs = {name: np.array(array) for name, array in honest(arrays).items()}
    types = {array.dtype.name for array in (*arrays.values(), *outputs.values())}
    if dtype and dtype not in types:
        return outputs
    with np.errstate(all="ignore"):
        return {
            name: array if name.startswith("mutated:") else ARRAY_FAULTS[fault](array)
            for name, array in outputs.items()
        }


def _with_plant(name: str) -> Backend:
    honest = import_string(_BUILTIN[name])

    class Planted(honest):  # type: ignore[misc, valid-type]
        options = {**honest.options, "plant": _OPTION}

        def validate(self, options: Options, target: str) -> None:
            super().validate(options, target)
            fault = options.get("plant", "").partition("@")[0]
            if fault and fault not in PLANTS:
                raise DriftlineError(
                    f"Target {target!r}: there is no planted fault {fault!r}.{did_you_mean(fault, PLANTS)}"
                    f" Known: {', '.join(PLANTS)}."
                )

        def compile(self, program: OpenedProgram, options: Options) -> Compiled:
            plant = options.get("plant", "")
            compiled: Compiled = super().compile(program, {k: v for k, v in options.items() if k != "plant"})
            if not plant:
                return compiled
            fault, _, dtype = plant.partition("@")
            if fault in PROCESS_FAULTS and not PROCESS_FAULTS[fault][1]:
                PROCESS_FAULTS[fault][0]()
            return partial(_spoilt, compiled, fault, dtype)

        def compile_together(self, programs: Any, samples: Any, options: Options) -> Any:
            return None if options.get("plant") else super().compile_together(programs, samples, options)

    Planted.__name__ = honest.__name__
    return Planted()  # type: ignore[no-any-return]


for _name in _BUILTIN:
    BACKENDS.register(_name, partial(_with_plant, _name))
