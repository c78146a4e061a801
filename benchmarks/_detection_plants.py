"""Compilers with one planted bug each, and a sound twin of each: `plant-NAME`, `twin-NAME`. A plugin file.

The torch ones are copies of eager with a hook at every call of a torch function, the ONNX ones copies of the ONNX
project's evaluator with a hook at every node. A plant says for a call what it wrongly makes of it, or None where it is
not struck. Its twin changes the very same calls in a legal way: it computes them in float64 and rounds once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from driftline.backends import register_backend
from driftline.backends._torch import TorchBackend, TorchRunner
from driftline.backends.base import Backend, Compiled, Options
from driftline.backends.onnx_reference import OnnxReference
from driftline.core.tensors import Arrays
from driftline.programs.onnx.evaluator import make_evaluator
from driftline.programs.opened import OpenedProgram

CLASSES = ("values", "memory", "sizes", "dtypes", "pairs", "calls", "gradients", "process")


@dataclass
class Call:
    """One operator on its way through a planted compiler, after it was computed honestly."""

    name: str  # as torch or ONNX calls it
    args: Sequence[Any]
    options: Mapping[str, Any]  # keyword arguments, or attributes
    result: Any
    makers: Sequence[str]  # the operators whose results the arguments are
    state: dict[str, Any]  # of the compiled program
    first_call: bool
    honest: Callable[[Sequence[Any]], Any] = field(repr=False)  # the operator itself

    def is_made_by(self, maker: str) -> bool:
        return maker in self.makers

    def is_given(self, value: Any) -> bool:
        """Is it what the program was called with?"""
        return id(value) in self.state["given"]


@dataclass(frozen=True)
class Deed:
    """What is more than a wrong result, and must not be done by a twin. It gives the result, if it comes back."""

    act: Callable[[], Any]


Wrong = Callable[[Call], Any]


@dataclass(frozen=True)
class Plant:
    name: str
    language: str
    kind: str  # one of CLASSES
    blames: tuple[str, ...]  # a right report names one of these operators
    wrong: Wrong


PLANTS: dict[str, Plant] = {}


def plant(language: str, kind: str, *blames: str) -> Callable[[Wrong], Wrong]:
    def added(wrong: Wrong) -> Wrong:
        name = wrong.__name__.replace("_", "-")
        PLANTS[name] = Plant(name, language, kind, blames, wrong)
        return wrong

    return added


# -- values ------------------------------------------------------------------------------------------------------------


@plant("torch", "values", "maximum")
def nan_lost_in_maximum(call: Call) -> Any:
    return _without_nan(call) if call.name == "maximum" else None


@plant("torch", "values", "softmax")
def infinity_in_softmax(call: Call) -> Any:
    import torch

    return torch.nan_to_num(call.result) if call.name == "softmax" and torch.isinf(call.args[0]).any() else None


@plant("torch", "values", "floor")
def floor_cuts_off(call: Call) -> Any:
    return call.args[0].trunc() if call.name == "floor" else None


@plant("torch", "values", "round")
def ties_go_up(call: Call) -> Any:
    return (call.args[0] + 0.5).floor() if call.name == "round" and _floats(call) else None


@plant("torch", "values", "sigmoid")
def sigmoid_stops_early(call: Call) -> Any:
    """A clamp that belongs to a float32 table."""
    import torch

    return torch.sigmoid(call.args[0].clamp(-8.0, 8.0)) if call.name == "sigmoid" else None


@plant("onnx", "values", "Tanh", "tanh")
def onnx_tanh_loses_nan(call: Call) -> Any:
    """Not Relu or Max, where the standard leaves open what becomes of a NaN."""
    return _without_nan(call) if call.name == "Tanh" else None


@plant("onnx", "values", "Log", "log", "log2", "log10")
def onnx_log_of_a_negative_is_zero(call: Call) -> Any:
    return _without_nan(call) if call.name == "Log" else None


@plant("onnx", "values", "Exp", "exp")
def onnx_exp_saturates(call: Call) -> Any:
    if call.name != "Exp" or not np.isinf(call.result).any():
        return None
    return np.nan_to_num(
        call.result, posinf=float(np.finfo(np.float32).max) if call.result.dtype != np.float16 else 65504
    )


@plant("onnx", "values", "Mod", "fmod", "remainder", "intfmod", "intremainder")
def onnx_mod_takes_the_other_sign(call: Call) -> Any:
    return (
        np.where(call.result != 0, -call.result, call.result).astype(call.result.dtype)
        if _signed(call, "Mod")
        else None
    )


@plant("onnx", "values", "ReduceSum", "sum")
def onnx_sum_drops_the_last(call: Call) -> Any:
    if call.name != "ReduceSum" or call.args[0].ndim == 0 or call.args[0].shape[-1] < 2:
        return None
    shorter = call.args[0].copy()
    shorter[..., -1] = 0
    return call.honest([shorter, *call.args[1:]])


# -- memory ------------------------------------------------------------------------------------------------------------


@plant("torch", "memory", "cumsum")
def cumsum_ignores_strides(call: Call) -> Any:
    """Reads a transposed tensor as if it lay row by row."""
    x = call.args[0] if call.args else None
    if call.name != "cumsum" or x.is_contiguous() or x.numel() < 2:
        return None
    return call.honest([_as_stored(x), *call.args[1:]])


@plant("torch", "memory", "relu")
def relu_of_expanded(call: Call) -> Any:
    x = call.args[0] if call.args else None
    if call.name != "relu" or not getattr(x, "ndim", 0) or not _is_expanded(x):
        return None
    wrong = call.result.clone()
    wrong[-1] = 0
    return wrong + 1


@plant("torch", "memory", "sum")
def sum_of_nothing(call: Call) -> Any:
    return call.result + 1 if call.name == "sum" and call.args[0].numel() == 0 and call.result.numel() else None


@plant("torch", "memory", "relu_", "sigmoid_", "add_itself_", "add_", "select")
def write_through_a_view_is_lost(call: Call) -> Any:
    """In place on a view that the program makes: the result is right, the base is not written. What is passed in may
    be a view as well (bfloat16 of integers, a transposed input), which no compiler is told."""
    name = call.name
    if name not in ("relu_", "sigmoid_", "add_") or call.args[0]._base is None or call.is_given(call.args[0]):
        return None
    return Deed(lambda: (call.state["undo"](), call.state["copy"])[1])


@plant("torch", "memory", "mm", "matmul")
def product_of_transposed_right(call: Call) -> Any:
    if call.name not in ("mm", "matmul") or call.args[1].ndim != 2 or call.args[1].is_contiguous():
        return None
    wrong = call.result.clone()
    wrong[..., -1] = 0
    return wrong


@plant("onnx", "memory", "Transpose", "permute", "transpose", "matrix_t")
def onnx_transpose_of_three_axes(call: Call) -> Any:
    """Axes turned the other way round."""
    if call.name != "Transpose" or call.args[0].ndim != 3:
        return None
    perm = list(call.options.get("perm", ()))
    turned = [perm.index(axis) for axis in range(3)] if perm else perm
    return np.transpose(call.args[0], turned).reshape(call.result.shape) if turned != perm else None


@plant("onnx", "memory", "Slice", "slice", "narrow")
def onnx_slice_with_a_step(call: Call) -> Any:
    if call.name != "Slice" or len(call.args) < 5 or abs(int(np.ravel(call.args[4])[0])) < 2 or call.result.size < 2:
        return None
    return np.roll(call.result, 1, axis=-1)


@plant("onnx", "memory", "Concat", "concat")
def onnx_concat_of_nothing(call: Call) -> Any:
    if call.name != "Concat" or all(x.size for x in call.args) or not call.result.size:
        return None
    return np.zeros_like(call.result) if call.result.any() else np.ones_like(call.result)


# -- sizes -------------------------------------------------------------------------------------------------------------


@plant("torch", "sizes", "mm", "matmul", "linear", "addmm")
def product_drops_the_last_block(call: Call) -> Any:
    """More than 256 terms are added in blocks, and what is left over is forgotten."""
    if call.name not in ("mm", "matmul", "linear") or call.args[0].ndim < 2 or call.args[0].shape[-1] <= 256:
        return None
    terms, kept = call.args[0].shape[-1], call.args[0].clone()
    if terms % 16 == 0:
        return None
    kept[..., terms - terms % 16 :] = 0
    return call.honest([kept, *call.args[1:]])


@plant("torch", "sizes", "exp")
def exp_of_a_tail(call: Call) -> Any:
    """The tail of a vector loop is not computed."""
    size = call.result.numel() if call.name == "exp" else 0
    if size < 64 or size % 16 != 1 or not _floats(call):
        return None
    wrong = call.result.clone().contiguous()
    wrong.view(-1)[-1] = 0.125
    return wrong


@plant("torch", "sizes", "sum")
def sum_of_many(call: Call) -> Any:
    """Two threads, and one of them is not waited for."""
    x = call.args[0] if call.args else None
    if call.name != "sum" or x.numel() <= 1024 or not _floats(call):
        return None
    return call.result * 0.5


@plant("torch", "sizes", "softmax")
def softmax_of_a_long_row(call: Call) -> Any:
    """The maximum is taken over the first 1,024."""
    if call.name != "softmax" or not call.result.ndim or max(call.result.shape) <= 1023:
        return None
    return call.result * 1.01


@plant("onnx", "sizes", "MatMul", "Gemm", "matmul", "mm", "linear", "addmm")
def onnx_product_of_many_terms(call: Call) -> Any:
    if call.name not in ("MatMul", "Gemm") or call.args[0].ndim < 2:
        return None
    kept = call.args[0].copy()
    terms = kept.swapaxes(-1, -2) if call.options.get("transA") else kept
    if terms.shape[-1] <= 128:
        return None
    terms[..., -(terms.shape[-1] % 8 or 8) :] = 0
    return call.honest([kept, *call.args[1:]])


@plant("onnx", "sizes", "ReduceMax", "amax", "ReduceMin", "amin")
def onnx_maximum_of_a_tail(call: Call) -> Any:
    if call.name not in ("ReduceMax", "ReduceMin") or call.args[0].size < 129 or call.result.size == 0:
        return None
    wrong = call.result.copy().reshape(-1)
    wrong[-1] = wrong[-1] + np.ones((), wrong.dtype)
    return wrong.reshape(call.result.shape)


@plant("onnx", "sizes", "Add", "add")
def onnx_add_of_a_tail(call: Call) -> Any:
    size = call.result.size if call.name == "Add" else 0
    if size < 64 or size % 16 != 1:
        return None
    wrong = call.result.copy().reshape(-1)
    wrong[-1] = wrong[-1] * 2 + np.ones((), wrong.dtype)
    return wrong.reshape(call.result.shape)


# -- dtypes ------------------------------------------------------------------------------------------------------------


@plant("torch", "dtypes", "tanh")
def tanh_in_bfloat16(call: Call) -> Any:
    return call.result * 1.02 if call.name == "tanh" and _dtype(call) == "bfloat16" else None


@plant("torch", "dtypes", "mul")
def product_of_bytes(call: Call) -> Any:
    """Saturates where it must wrap around."""
    if call.name != "mul" or _dtype(call) not in ("uint8", "int8") or not _is_tensor(call.result):
        return None
    import torch

    wide = call.honest([x.to(torch.int32) if _is_tensor(x) else x for x in call.args])
    limits = torch.iinfo(call.result.dtype)
    return wide.clamp(limits.min, limits.max).to(call.result.dtype)


@plant("torch", "dtypes", "abs", "complex_abs", "complexabs")
def abs_of_complex(call: Call) -> Any:
    return call.args[0].real.abs() if call.name == "abs" and call.args[0].is_complex() else None


@plant("torch", "dtypes", "argmax")
def argmax_of_halves(call: Call) -> Any:
    return call.result * 0 if call.name == "argmax" and _dtype(call) == "float16" else None


@plant("onnx", "dtypes", "Cast", "cast")
def onnx_cast_to_integers_rounds(call: Call) -> Any:
    if call.name != "Cast" or call.args[0].dtype.kind != "f" or call.result.dtype.kind not in "iu":
        return None
    with np.errstate(all="ignore"):
        return np.rint(np.nan_to_num(call.args[0].astype(np.float64))).astype(call.result.dtype)


@plant("onnx", "dtypes", "QuantizeLinear")
def onnx_quantised_without_ties(call: Call) -> Any:
    """Half a step too high."""
    if call.name != "QuantizeLinear" or call.result.dtype.name not in ("uint8", "int8"):
        return None
    return call.honest([call.args[0] + call.args[1] * 0.5, *call.args[1:]])


@plant("onnx", "dtypes", "MatMulInteger")
def onnx_integer_product_ignores_zero_point(call: Call) -> Any:
    return call.honest(list(call.args[:2])) if call.name == "MatMulInteger" and len(call.args) > 2 else None


# -- pairs -------------------------------------------------------------------------------------------------------------


@plant("torch", "pairs", "relu", "clamp", "leaky_relu", "neg")
def neg_swallowed_by_relu(call: Call) -> Any:
    made = call.name in ("relu", "clamp") and call.is_made_by("neg")
    return call.honest([-call.args[0], *call.args[1:]]) if made else None


@plant("torch", "pairs", "softmax", "mul", "div")
def scale_lost_before_softmax(call: Call) -> Any:
    made = call.name == "softmax" and (call.is_made_by("mul") or call.is_made_by("div"))
    return call.honest([call.args[0] * 2]) if made else None


@plant("torch", "pairs", "rsqrt", "add", "mean")
def epsilon_lost_in_norm(call: Call) -> Any:
    made = call.name in ("rsqrt", "sqrt") and call.is_made_by("add")
    return call.honest([call.args[0] - 2.0**-10]) if made else None


@plant("torch", "pairs", "linear", "gelu", "relu", "silu", "sigmoid")
def bias_lost_after_activation(call: Call) -> Any:
    made = call.name == "linear" and any(map(call.is_made_by, ("gelu", "relu", "silu", "sigmoid", "tanh")))
    return call.honest(list(call.args[:2])) + 0.0 if made and len(call.args) > 2 else None


@plant("torch", "pairs", "sub", "exp", "log", "sum")
def exp_of_difference(call: Call) -> Any:
    return call.result + 0.01 if call.name == "exp" and call.is_made_by("sub") else None


@plant("torch", "pairs", "permute", "transpose", "mm", "matmul")
def transpose_folded_twice(call: Call) -> Any:
    turned = call.name in ("mm", "matmul") and (call.is_made_by("transpose") or call.is_made_by("permute"))
    return call.result.flip(-1) if turned and call.result.ndim and call.result.shape[-1] > 1 else None


@plant("onnx", "pairs", "MatMul", "Add", "matmul", "add", "linear")
def onnx_bias_folded_into_product(call: Call) -> Any:
    return (
        call.args[0]
        if call.name == "Add" and call.is_made_by("MatMul") and call.args[0].shape == call.result.shape
        else None
    )


@plant("onnx", "pairs", "Cast", "cast")
def onnx_cast_pair_removed(call: Call) -> Any:
    """Float to integer and back: taken for nothing."""
    if call.name != "Cast" or not call.is_made_by("Cast"):
        return None
    before = call.state["sources"].get(id(call.args[0]))
    return before.astype(call.result.dtype) if before is not None and before.dtype == call.result.dtype else None


@plant("onnx", "pairs", "Relu", "Clip", "relu", "clamp", "hardtanh", "relu6")
def onnx_relu_before_clip(call: Call) -> Any:
    return call.result * 0 + call.state["sources"].get(id(call.args[0]), call.args[0]) if _relu_clip(call) else None


@plant("onnx", "pairs", "Softmax", "softmax", "Mul", "mul")
def onnx_scale_folded_into_softmax(call: Call) -> Any:
    if call.name != "Softmax" or not call.is_made_by("Mul"):
        return None
    return call.honest([(call.args[0] * 1.5).astype(call.args[0].dtype)])  # a bfloat16 times 1.5 is a float32


# -- later calls -------------------------------------------------------------------------------------------------------


@plant("torch", "calls", "mean")
def mean_keeps_the_first_size(call: Call) -> Any:
    """The count is that of the first call."""
    if call.name != "mean":
        return None
    first = call.state.setdefault("size", call.args[0].numel())
    size = call.args[0].numel()
    return call.result * (size / first) if first != size and first else None


@plant("torch", "calls", "sin")
def sin_returns_the_first_result(call: Call) -> Any:
    if call.name != "sin":
        return None
    first = call.state.setdefault("sin", call.result.detach().clone())
    return None if call.first_call or first.shape != call.result.shape else first.clone()


@plant("onnx", "calls", "Sqrt", "sqrt")
def onnx_sqrt_returns_the_first_result(call: Call) -> Any:
    if call.name != "Sqrt":
        return None
    first = call.state.setdefault("sqrt", call.result.copy())
    return None if call.first_call or first.shape != call.result.shape else first


# -- gradients ---------------------------------------------------------------------------------------------------------


@plant("torch", "gradients", "silu")
def gradient_of_silu(call: Call) -> Any:
    return _with_gradient(call, 1.05) if call.name == "silu" else None


@plant("torch", "gradients", "amax", "max")
def gradient_of_amax(call: Call) -> Any:
    return _with_gradient(call, 0.5) if call.name == "amax" else None


# -- the process -------------------------------------------------------------------------------------------------------


def _raise() -> None:
    raise RuntimeError("planted: no schedule for this loop nest")


@plant("torch", "process", "cumprod")
def error_on_cumprod_of_two_axes(call: Call) -> Any:
    return Deed(_raise) if call.name == "cumprod" and call.args[0].ndim == 2 else None


@plant("onnx", "process", "Tile", "tile", "repeat")
def onnx_abort_on_tile(call: Call) -> Any:
    return Deed(os.abort) if call.name == "Tile" and call.result.ndim >= 3 else None


# -- small questions ---------------------------------------------------------------------------------------------------


def _without_nan(call: Call) -> Any:
    if isinstance(call.result, np.ndarray):
        return np.nan_to_num(call.result, nan=0.0, posinf=np.inf, neginf=-np.inf) if _has_nan(call.result) else None
    import torch

    lost = call.result.is_floating_point() and torch.isnan(call.result).any()
    return torch.where(torch.isnan(call.result), torch.zeros_like(call.result), call.result) if lost else None


def _has_nan(array: Any) -> bool:
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _signed(call: Call, name: str) -> bool:
    return call.name == name and call.result.dtype.kind in "if" and bool((np.asarray(call.args[0]) < 0).any())


def _relu_clip(call: Call) -> bool:
    before = call.state["sources"].get(id(call.args[0])) if call.name == "Clip" and call.is_made_by("Relu") else None
    return before is not None and before.shape == call.result.shape


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "is_floating_point")


def _dtype(call: Call) -> str:
    first = call.args[0] if call.args else None
    return str(first.dtype).removeprefix("torch.") if _is_tensor(first) else ""


def _floats(call: Call) -> bool:
    return bool(call.args) and _is_tensor(call.args[0]) and call.args[0].is_floating_point()


def _is_expanded(x: Any) -> bool:
    return any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape, strict=True))


def _as_stored(x: Any) -> Any:
    return x.as_strided(x.shape, _row_by_row(x.shape)).clone() if _fits(x) else x.flip(-1).contiguous()


def _row_by_row(shape: Sequence[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return strides


def _fits(x: Any) -> bool:
    return bool(x.untyped_storage().nbytes() >= (x.storage_offset() + x.numel()) * x.element_size())


def _with_gradient(call: Call, factor: float) -> Any:
    if not call.result.requires_grad:
        return None
    result = call.result * 1.0
    result.register_hook(lambda gradient: gradient * factor)
    return result


# -- the copies of eager and of the evaluator --------------------------------------------------------------------------


class _PlantedEager(TorchBackend):
    batch = 60
    plant: ClassVar[Plant]
    sound: ClassVar[bool]

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        return TorchRunner(program, _hooked(program.live.function, type(self).plant, type(self).sound))


def _hooked(function: Callable[..., Any], planted: Plant, sound: bool) -> Callable[..., Any]:
    """The callable with a hook at every torch function; parameters and buffers are still found on it."""
    from torch.overrides import TorchFunctionMode

    state: dict[str, Any] = {}
    seen: list[int] = []

    class Hook(TorchFunctionMode):
        def __init__(self, first: bool) -> None:
            super().__init__()
            self.first = first
            self.makers: dict[int, tuple[str, Any]] = {}  # by id, with the tensor, which keeps its id taken

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = str(getattr(func, "__name__", ""))
            name = name.strip("_") if name.startswith("__") else name
            before = args[0].detach().clone() if name.endswith("_") and args and _is_tensor(args[0]) else None
            result = func(*args, **kwargs)
            if _is_tensor(result) and name not in ("get", "set"):
                makers = [self.makers[id(x)][0] for x in args if id(x) in self.makers]
                if before is not None:
                    copy = result.detach().clone()
                    state.update(copy=copy, undo=lambda: args[0].detach().copy_(before))
                call = Call(name, args, kwargs, result, makers, state, self.first, lambda given: func(*given, **kwargs))
                result = _struck(call, planted, sound, _in_double_torch)
                self.makers[id(result)] = (name, result)
            return result

    def run(*args: Any, **kwargs: Any) -> Any:
        hook = Hook(not seen)
        seen.append(1)
        state["given"] = set(map(id, [*args, *kwargs.values()]))
        with hook:
            return function(*args, **kwargs)

    for method in ("named_parameters", "named_buffers"):
        if hasattr(function, method):
            setattr(run, method, getattr(function, method))
    return run


class _PlantedEvaluator(OnnxReference):
    batch = 60
    plant: ClassVar[Plant]
    sound: ClassVar[bool]
    reference = False

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        evaluator = make_evaluator(program.model())
        state: dict[str, Any] = {}
        calls: list[int] = []
        made_by = {name: node.op_type for node in evaluator.rt_nodes_ for name in node.output}
        for node in evaluator.rt_nodes_:
            _hook_node(node, type(self), state, calls, [made_by.get(name, "") for name in node.input])

        def run(arrays: Arrays) -> Arrays:
            state["sources"] = {}
            calls.append(1)
            feed = {name: arrays[name] for name in evaluator.input_names if name in arrays}
            with np.errstate(all="ignore"):
                results = evaluator.run(None, feed)
            return {name: np.asarray(value) for name, value in zip(evaluator.output_names, results, strict=True)}

        return run


def _hook_node(
    node: Any, backend: type[_PlantedEvaluator], state: dict[str, Any], calls: list[int], makers: Sequence[str]
) -> None:
    honest = node.run
    attributes = {one.name: _attribute(one) for one in node.onnx_node.attribute}

    def run(*inputs: Any, **more: Any) -> Any:
        results = honest(*inputs, **more)
        if len(results) != 1 or not isinstance(results[0], np.ndarray):
            return results
        call = Call(
            node.op_type, inputs, attributes, results[0], makers, state, len(calls) < 2,
            lambda given: honest(*given, **more)[0],
        )  # fmt: skip
        result = np.asarray(_struck(call, backend.plant, backend.sound, _in_double_onnx))
        if inputs and isinstance(inputs[0], np.ndarray):
            state["sources"][id(result)] = inputs[0]
        return (result,)

    node.run = run


def _attribute(attribute: Any) -> Any:
    from onnx import helper

    return helper.get_attribute_value(attribute)


def _struck(call: Call, planted: Plant, sound: bool, legal: Callable[[Call], Any]) -> Any:
    wrong = planted.wrong(call)
    if wrong is None:
        return call.result
    if sound:
        return legal(call)
    if isinstance(wrong, Deed):
        return wrong.act()
    return wrong


def _in_double_torch(call: Call) -> Any:
    """The same in float64, rounded once; what is no float, writes in place or does not take float64 stays as it is."""
    import torch

    if not call.result.is_floating_point() or call.name.endswith("_"):
        return call.result
    try:
        wide = [x.double() if _is_tensor(x) and x.is_floating_point() else x for x in call.args]
        result = call.honest(wide).to(call.result.dtype)
    except (RuntimeError, TypeError, ValueError):
        return call.result
    return result if result.shape == call.result.shape and not torch.equal(result, call.result) else call.result


def _in_double_onnx(call: Call) -> Any:
    if call.result.dtype.name not in ("float32", "float16"):
        return call.result
    try:
        wide = [x.astype(np.float64) if getattr(x, "dtype", None) == call.result.dtype else x for x in call.args]
        result = call.honest(wide).astype(call.result.dtype)
    except Exception:  # the evaluator does not take it: then it is left as it is
        return call.result
    return result if result.shape == call.result.shape else call.result


_BASES: dict[str, type[Backend]] = {"torch": _PlantedEager, "onnx": _PlantedEvaluator}


def planted_backend(planted: Plant, *, sound: bool) -> Backend:
    """The compiler with a plant, or its twin."""
    name = f"{'twin' if sound else 'plant'}-{planted.name}"
    return type(name, (_BASES[planted.language],), {"name": name, "plant": planted, "sound": sound})()


for _one in PLANTS.values():
    for _prefix in ("plant", "twin"):
        register_backend(type(planted_backend(_one, sound=_prefix == "twin")))
