"""Compilers of reduced precision, and compilers with a bug that reduced precision must not hide. A plugin for tests.

`sums-in-half` keeps the sums of matrix products in the type of the operands; `requantises` lands up to `quanta` steps
beside the quantised values that an ONNX model means; `lazy` runs a torch program with one operator done wrong;
`declines` rejects everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from driftline.backends import register_backend
from driftline.backends._torch import TorchRunner
from driftline.backends.base import Backend, Compiled, Option, Options
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram


class _OnTorch(Backend):
    accepts = ("source:torch", "torch")
    module = "torch"
    distribution = "torch"
    mutates = True

    def change(self, options: Options) -> Callable[[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]:
        raise NotImplementedError

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        from torch.utils._python_dispatch import TorchDispatchMode

        change, function = self.change(options), program.live.function

        class Changed(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return change(func.overloadpacket.__name__, func, args, kwargs or {})

        def run(*args: Any, **kwargs: Any) -> Any:
            with Changed():
                return function(*args, **kwargs)

        return TorchRunner(program, run)


def _product(left: Any, right: Any, last: int) -> Any:
    """A matrix product, one term after the other in the type itself; `last` terms are left out."""
    total = left[..., :1] * right[..., :1, :]
    for k in range(1, left.shape[-1] - last):
        total = total + left[..., k : k + 1] * right[..., k : k + 1, :]
    return total


def _products(last: int) -> Callable[..., Any]:
    def change(name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name in ("mm", "bmm"):
            return _product(args[0], args[1], last)
        if name in ("addmm", "baddbmm"):
            return args[0] + _product(args[1], args[2], last)
        return func(*args, **kwargs)

    return change


class SumsInHalf(_OnTorch):
    name = "sums-in-half"

    def change(self, options: Options) -> Callable[..., Any]:
        return _products(last=0)


class Lazy(_OnTorch):
    name = "lazy"
    options: ClassVar[dict[str, Option]] = {
        "bug": Option("what is wrong", ("epsilon", "softplus", "tile", "expm1", "flush", "floor"), "tile")
    }

    def change(self, options: Options) -> Callable[..., Any]:
        bug = options.get("bug", "tile")
        if bug == "tile":
            return _products(last=8)

        def change(name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if bug == "epsilon" and name == "native_layer_norm":
                return func(*args[:4], 100 * args[4], **kwargs)
            if bug == "expm1" and name == "expm1":
                return args[0].exp() - 1
            if bug == "flush" and name == "ceil":  # as processors do that take subnormal numbers for zero
                return func(args[0].where(args[0].abs() >= 2.0**-126, 0.0))
            if bug == "floor" and name == "ceil":
                return args[0].floor()
            result = func(*args, **kwargs)
            return result * 1.05 if bug == "softplus" and name == "softplus" else result

        return change


class Requantises(Backend):
    name = "requantises"
    accepts = ("onnx",)
    module = "onnx"
    distribution = "onnx"
    options: ClassVar[dict[str, Option]] = {"quanta": Option("how far off", default="1")}

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import onnx
        from onnx.reference import ReferenceEvaluator
        from onnx.reference.op_run import OpRun

        off = int(options.get("quanta", "1"))
        given: list[Any] = []

        class QuantizeLinear(OpRun):  # type: ignore[misc]
            op_domain = ""

            def _run(self, x: Any, scale: Any, zero_point: Any, **attributes: Any) -> Any:
                quanta = (
                    0 if any(x is array for array in given) else off
                )  # what is quantised first is not quantised again
                limits = np.iinfo(zero_point.dtype)
                steps = np.random.default_rng(x.size).choice((-1, 0, 0, 0, 1), x.shape)
                right = np.clip(np.rint(x / scale) + zero_point, limits.min, limits.max)
                return (np.clip(right + quanta * steps, limits.min, limits.max).astype(zero_point.dtype),)

        evaluator = ReferenceEvaluator(onnx.load_model_from_string(program.data), new_ops=[QuantizeLinear])

        def run(arrays: Arrays) -> Arrays:
            given[:] = arrays.values()
            return dict(zip(evaluator.output_names, evaluator.run(None, dict(arrays)), strict=True))

        return run


class Declines(Backend):
    """Takes nothing at all."""

    name = "declines"
    accepts = ("onnx",)
    module = "onnx"
    distribution = "onnx"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        raise NotImplementedError("not today")


for _backend in (SumsInHalf, Lazy, Requantises, Declines):
    register_backend(_backend)
