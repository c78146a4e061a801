"""Corrections to operators of ONNX's reference evaluator that run graphs or hold optional values, where they depart
from the standard."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_loop as onnx_loop


class Loop(onnx_loop.Loop):
    """Loop. The evaluator's own requires a condition, and joins the results of the iterations along their first axis,
    not along a new one."""

    op_domain = ""

    def __init__(self, onnx_node: Any, run_params: Any) -> None:
        super().__init__(onnx_node, run_params)
        run_once: Any = vars(self)["_run_body"]  # set by the evaluator, as for every attribute that is a graph

        def run_and_keep(inputs: Any, **more: Any) -> Any:
            outputs = run_once(inputs, **more)
            self._given.append(outputs[len(outputs) - self.K :])
            return outputs

        self._run_body = run_and_keep

    def _run(self, most: Any, go_on: Any, *carried: Any, **more: Any) -> tuple[Any, ...]:
        self._given: list[list[Any]] = []
        go_on = np.array(True) if go_on is None else go_on
        if not go_on or (most is not None and most <= 0):
            return (*carried[: self.N], *map(_nothing_of, self.body.output_types[1 + self.N :]))
        results = super()._run(most, go_on, *carried, **more)
        given = zip(*self._given, strict=True)
        return (*results[: self.N], *(np.stack(values) for values in given))


def _nothing_of(declared: Any) -> Any:
    """Return the empty result of a loop without iterations, with the type that the body declares."""
    kind = declared.tensor_type
    if not kind.HasField("shape") or any(not size.HasField("dim_value") for size in kind.shape.dim):
        raise ValueError("a loop without iterations, whose body does not say how large its results are")
    return np.empty((0, *(size.dim_value for size in kind.shape.dim)), helper.tensor_dtype_to_np_dtype(kind.elem_type))


class Scan(OpRun):
    """Scan. The evaluator's own supports only the first axis and the forward direction, and passes elements of a vector
    to the body as numbers instead of arrays."""

    op_domain = ""

    def need_context(self) -> bool:
        return True

    def _run(self, *args: Any, context: Any = None, bindings: Any = None, **attributes: Any) -> tuple[Any, ...]:
        carried = len(args) - attributes["num_scan_inputs"]
        collected = len(self.body.output_names) - carried  # type: ignore[attr-defined]
        states = list(args[:carried])
        scanned = [
            np.flip(moved, 0) if backwards else moved
            for value, axis, backwards in zip(
                args[carried:],
                attributes.get("scan_input_axes") or [0] * len(args),
                attributes.get("scan_input_directions") or [0] * len(args),
                strict=False,
            )
            for moved in [np.moveaxis(value, axis, 0)]
        ]
        made: list[list[Any]] = []
        for items in zip(*scanned, strict=True):
            given = [*states, *map(np.asarray, items)]
            inputs = {**(context or {}), **dict(zip(self.body.input_names, given, strict=True))}  # type: ignore[attr-defined]
            outputs = vars(self)["_run_body"](inputs, bindings=bindings)  # set by the evaluator
            states = outputs[:carried]
            made.append(outputs[carried:])
        if not made:
            return (*states, *map(_nothing_of, self.body.output_types[carried:]))  # type: ignore[attr-defined]
        columns = zip(
            zip(*made, strict=True),
            attributes.get("scan_output_axes") or [0] * collected,
            attributes.get("scan_output_directions") or [0] * collected,
            strict=True,
        )
        results = (np.stack(values[::-1] if backwards else values, axis) for values, axis, backwards in columns)
        return (*states, *results)


class _OptionalValue(list[Any]):
    """The value of an optional; empty if there is no value. The evaluator uses plain lists for sequences."""


class Optional(OpRun):
    """Optional. The evaluator's own turns its argument into a sequence, and OptionalGetElement leaves it one."""

    op_domain = ""

    def _run(self, x: Any = None, type: Any = None) -> tuple[Any]:
        return (_OptionalValue([] if x is None else [x]),)


class OptionalGetElement(OpRun):
    op_domain = ""

    def _run(self, x: Any) -> tuple[Any]:
        if x is None or (isinstance(x, _OptionalValue) and not x):
            raise ValueError("The requested optional input has no value.")
        return (x[0] if isinstance(x, _OptionalValue) else x,)


class OptionalHasElement(OpRun):
    op_domain = ""

    def _run(self, x: Any = None) -> tuple[Any]:
        return (np.array(len(x) > 0 if isinstance(x, _OptionalValue) else x is not None),)


CONTROL: tuple[type[OpRun], ...] = (Loop, Optional, OptionalGetElement, OptionalHasElement)
