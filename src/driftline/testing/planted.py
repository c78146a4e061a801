"""Compilers with a known bug each: `planted-<bug>`. A plugin file, used by name through `--plugin`.

Each takes torch programs (run by eager) and ONNX models (run by ONNX Runtime without optimisation), runs them honestly
and then spoils the result, an operator, or the process. What finds, shrinks and explains bugs is tested on them.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from driftline.backends import register_backend
from driftline.backends._torch import TorchRunner
from driftline.backends.base import Backend, Compiled, Option, Options
from driftline.backends.onnxruntime import OnnxRuntime, runner
from driftline.core.tensors import Arrays, is_float
from driftline.programs.opened import OpenedProgram

# -- the three places where a bug can sit ------------------------------------------------------------------------------


class _Planted(Backend):
    """Base of the planted backends: runs programs correctly until a subclass interferes."""

    accepts = ("source:torch", "torch", "onnx")
    module = "torch"
    distribution = "torch"
    install = "pip install torch==2.13.0 onnxruntime==1.31.1"
    family = "eager"
    gradients = True
    mutates = True

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        if program.form == "onnx":
            return OnnxRuntime().compile(program, {"opt": "off"})
        return TorchRunner(program, program.live.function)

    def is_rejection(self, error: BaseException) -> bool:
        return OnnxRuntime().is_rejection(error)

    def _option(self, options: Options, name: str) -> str:
        return options.get(name, self.options[name].default)


class _ResultBug(_Planted):
    """A backend with a bug in its results: `bug(outputs, inputs, value of the option)` changes the outputs in place."""

    bug: ClassVar[Callable[[Arrays, Arrays, str], None]]

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest = super().compile(program, options)
        value = next((self._option(options, name) for name in self.options), "")

        def run(arrays: Arrays) -> Arrays:
            outputs = {name: np.array(array) for name, array in honest(arrays).items()}
            type(self).bug(outputs, arrays, value)
            return outputs

        return run


class _ProcessBug(_Planted):
    """A backend whose `bug(value of the option)` harms the process, during compilation or during a run."""

    bug: ClassVar[Callable[[], None]]
    options = {"stage": Option("when the bug strikes", ("compile", "run"), "run")}

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest = super().compile(program, options)
        if self._option(options, "stage") == "compile":
            type(self).bug()

        def run(arrays: Arrays) -> Arrays:
            if self._option(options, "stage") == "run":
                type(self).bug()
            return honest(arrays)

        return run


class _OperatorBug(_Planted):
    """A backend that changes single operators: torch calls while they run, ONNX nodes before the model is loaded."""

    torch_bug: ClassVar[Callable[[str, tuple[Any, ...], dict[str, Any], Callable[..., Any], str], Any]]
    onnx_bug: ClassVar[Callable[[Any, Any, str], None]]  # (model, node, value of the option)

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        value = next((self._option(options, name) for name in self.options), "")
        if program.form == "onnx":
            return _run_rewritten(program, type(self).onnx_bug, value)
        return TorchRunner(program, _intercepted(program.live.function, type(self).torch_bug, value))


# -- operators ---------------------------------------------------------------------------------------------------------


def _intercepted(function: Callable[..., Any], bug: Callable[..., Any], value: str) -> Callable[..., Any]:
    """Return a callable whose torch calls go through `bug`; it has the parameters and buffers of `function`."""
    from torch.overrides import TorchFunctionMode

    class Interceptor(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return bug(_operator_name(func), args, kwargs or {}, func, value)

    def run(*args: Any, **kwargs: Any) -> Any:
        with Interceptor():
            return function(*args, **kwargs)

    for method in ("named_parameters", "named_buffers"):
        if hasattr(function, method):
            setattr(run, method, getattr(function, method))
    return run


def _operator_name(func: Any) -> str:
    """Return the lower-case name of an operator: `torch.relu`, `Tensor.relu_`, `aten.relu.default` are all "relu"."""
    packet = getattr(func, "overloadpacket", func)
    return str(getattr(packet, "__name__", "")).strip("_").lower()


def _run_rewritten(program: OpenedProgram, bug: Callable[[Any, Any, str], None], value: str) -> Compiled:
    model = program.model()
    for node in list(model.graph.node):
        bug(model, node, value)
    return runner(OnnxRuntime().session(model.SerializeToString(), {"opt": "off"}))


def _double_torch(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], func: Callable[..., Any], op: str) -> Any:
    import torch

    result = func(*args, **kwargs)
    if name != op.lower() or not isinstance(result, torch.Tensor):
        return result
    return ~result if result.dtype == torch.bool else result + result


def _double_onnx(model: Any, node: Any, op: str) -> None:
    """Rewrite `y = Op(x)` as `honest = Op(x); y = honest + honest`."""
    from onnx import helper

    if node.op_type.lower() == op.lower():
        wanted = node.output[0]
        node.output[0] = f"{wanted}.honest"
        where = list(model.graph.node).index(node) + 1
        model.graph.node.insert(where, helper.make_node("Add", [node.output[0]] * 2, [wanted]))


def _double_pattern_torch(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], func: Callable[..., Any], pattern: str
) -> Any:
    """Double a result only where the second operator of `pattern` reads a result of the first."""
    import torch

    first, second = pattern.lower().split("+")
    result = func(*args, **kwargs)
    if isinstance(result, torch.Tensor):
        made_by_first = any(getattr(arg, "planted_made_by", "") == first for arg in args)
        result = result + result if name == second and made_by_first else result
        result.planted_made_by = name  # type: ignore[attr-defined]
    return result


def _double_pattern_onnx(model: Any, node: Any, pattern: str) -> None:
    first, second = pattern.lower().split("+")
    makers = {output: maker.op_type.lower() for maker in model.graph.node for output in maker.output}
    if node.op_type.lower() == second and any(makers.get(name) == first for name in node.input):
        _double_onnx(model, node, second)


_TORCH_REDUCTIONS = ("sum", "mean", "amax", "amin", "prod", "logsumexp")
_ONNX_REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceLogSumExp")


def _turn_torch(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], func: Callable[..., Any], _: str) -> Any:
    """Reduce over the next axis instead of the given one."""
    if name in _TORCH_REDUCTIONS and args and getattr(args[0], "ndim", 0) > 1:
        rank = args[0].ndim
        for key in ("dim", "axis"):
            if kwargs.get(key) is not None:
                kwargs = {**kwargs, key: _next_axis(kwargs[key], rank)}
        if len(args) > 1 and args[1] is not None:
            args = (args[0], _next_axis(args[1], rank), *args[2:])
    return func(*args, **kwargs)


def _next_axis(axes: Any, rank: int) -> Any:
    if isinstance(axes, int):
        return (axes + 1) % rank
    return [(axis + 1) % rank for axis in axes]


def _turn_onnx(model: Any, node: Any, _: str) -> None:
    import onnx
    from onnx import helper, numpy_helper

    if node.op_type not in _ONNX_REDUCTIONS:
        return
    inferred = onnx.shape_inference.infer_shapes(model).graph
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in (*inferred.input, *inferred.value_info)}
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    rank = ranks.get(node.input[0], 0)
    if rank < 2:
        return
    for attribute in node.attribute:
        if attribute.name == "axes":
            attribute.CopyFrom(helper.make_attribute("axes", _next_axis(list(attribute.ints), rank)))
    if len(node.input) > 1 and node.input[1] in constants:
        turned = np.array(_next_axis(constants[node.input[1]].tolist(), rank), np.int64)
        node.input[1] = f"{node.output[0]}.axes"
        model.graph.initializer.append(numpy_helper.from_array(turned, node.input[1]))
    del model.graph.value_info[:]
    for output in model.graph.output:  # declared for the honest model
        output.type.tensor_type.ClearField("shape")


# -- results -----------------------------------------------------------------------------------------------------------


def _drop_channel(outputs: Arrays, inputs: Arrays, _: str) -> None:
    for array in outputs.values():
        if array.ndim:
            array[(slice(None), -1) if array.ndim > 1 else -1] = 0


def _spoil_big(outputs: Arrays, inputs: Arrays, elements: str) -> None:
    for array in outputs.values():
        if array.size > int(elements):
            array.reshape(-1)[-1] = ~array.reshape(-1)[-1] if array.dtype == bool else array.reshape(-1)[-1] * 2 + 1


def _swallow_nan(outputs: Arrays, inputs: Arrays, _: str) -> None:
    for name, array in outputs.items():
        if is_float(array.dtype.name):
            outputs[name] = np.where(np.isnan(array), np.zeros((), array.dtype), array)


_WIDER = {"float32": "float64", "float16": "float32", "bfloat16": "float32", "int32": "int64", "bool": "uint8"}


def _widen(outputs: Arrays, inputs: Arrays, _: str) -> None:
    for name, array in outputs.items():
        outputs[name] = array.astype(_WIDER.get(array.dtype.name, array.dtype))


def _add_axis(outputs: Arrays, inputs: Arrays, _: str) -> None:
    for name, array in outputs.items():
        outputs[name] = array[None]


def _change_inputs(outputs: Arrays, inputs: Arrays, _: str) -> None:
    for name, array in inputs.items():
        if array.size:
            array.reshape(-1)[0] = ~array.reshape(-1)[0] if array.dtype == bool else array.reshape(-1)[0] + 1
            outputs[f"mutated:{name}"] = array.copy()


# -- processes ---------------------------------------------------------------------------------------------------------


def _segfault() -> None:
    ctypes.string_at(0)


def _hang() -> None:
    while True:
        time.sleep(3600)


def _eat_memory() -> None:
    """Allocate memory slowly, so that a memory limit stops the process; raise `MemoryError` at the end otherwise."""
    eaten = []
    for _ in range(512):
        eaten.append(np.ones(32 << 20, np.uint8))
        time.sleep(0.01)
    raise MemoryError


def _fail_every_second_time() -> None:
    """Raise on every second call, counted over all processes of a run, so that a fresh process may fail or succeed."""
    counter = Path(tempfile.gettempdir()).parent / "planted-flaky"  # a worker has a folder of its own in it
    with open(counter, "ab") as file:
        file.write(b".")
        count = file.tell()
    if count % 2 == 0:
        raise RuntimeError("the planted compiler is in a bad mood")


# -- the table ---------------------------------------------------------------------------------------------------------

_SIZE = {"elements": Option("results larger than this are wrong", default="1000")}
_OP = {"op": Option("the operator that is wrong, as torch or ONNX calls it", default="relu")}

_PATTERN = {"pattern": Option("two operators, wrong where the second reads the first", default="add+relu")}

_TABLE: tuple[tuple[str, type[_Planted], dict[str, Any]], ...] = (
    ("drops-channel", _ResultBug, {"bug": _drop_channel}),
    ("big-only", _ResultBug, {"bug": _spoil_big, "options": _SIZE}),
    ("nan-swallowed", _ResultBug, {"bug": _swallow_nan}),
    ("wrong-dtype", _ResultBug, {"bug": _widen}),
    ("wrong-shape", _ResultBug, {"bug": _add_axis}),
    ("input-mutated", _ResultBug, {"bug": _change_inputs}),
    ("wrong-axis", _OperatorBug, {"torch_bug": _turn_torch, "onnx_bug": _turn_onnx}),
    ("wrong-on", _OperatorBug, {"torch_bug": _double_torch, "onnx_bug": _double_onnx, "options": _OP}),
    (
        "wrong-pattern",
        _OperatorBug,
        {"torch_bug": _double_pattern_torch, "onnx_bug": _double_pattern_onnx, "options": _PATTERN},
    ),
    ("segfault", _ProcessBug, {"bug": _segfault}),
    ("abort", _ProcessBug, {"bug": os.abort}),
    ("hang", _ProcessBug, {"bug": _hang}),
    ("memory-hog", _ProcessBug, {"bug": _eat_memory}),
    ("flaky", _ProcessBug, {"bug": _fail_every_second_time}),
)

for _name, _base, _members in _TABLE:
    _functions = {key: staticmethod(value) if callable(value) else value for key, value in _members.items()}
    register_backend(type(f"Planted_{_name}", (_base,), {"name": f"planted-{_name}", **_functions}))
