"""Corrections to operators of ONNX's reference evaluator, where they depart from the standard or are slow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import helper
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_average_pool as onnx_average_pool
from onnx.reference.ops import op_conv_transpose as onnx_conv_transpose
from onnx.reference.ops import op_gemm as onnx_gemm
from onnx.reference.ops import op_hardmax as onnx_hardmax
from onnx.reference.ops import op_lp_pool as onnx_lp_pool
from onnx.reference.ops import op_quantize_linear as onnx_quantize_linear
from onnx.reference.ops import op_resize as onnx_resize
from onnx.reference.ops import op_softmax as onnx_softmax

from driftline.core.tensors import is_float
from driftline.programs.onnx.control_corrections import CONTROL, Scan
from driftline.programs.onnx.pool import quick_pooling
from driftline.programs.onnx.recurrent import PlainSteps, run_recurrent


class Erf(OpRun):
    """Erf. The evaluator's own computes in float32 for every dtype, which loses the precision of float64."""

    op_domain = ""

    def _run(self, x: Any) -> tuple[Any]:
        return (np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype),)


class ConvTranspose(onnx_conv_transpose.ConvTranspose):
    """ConvTranspose. The evaluator's own adds each product in Python, so that a judgement, which runs a program about
    twenty times, took up to a minute. Here all products of one kernel element are added at once, in the same order, so
    the bits are the same. The evaluator's own also mixes up groups, and never crops to `output_shape`."""

    op_domain = ""

    def _run(self, x: Any, w: Any, b: Any = None, **attributes: Any) -> tuple[Any]:
        if (groups := attributes.get("group") or 1) > 1:
            biases = [None] * groups if b is None else np.split(b, groups)
            given = zip(np.split(x, groups, axis=1), np.split(w, groups), biases, strict=True)
            parts = [self._run(*of_group, **{**attributes, "group": 1})[0] for of_group in given]
            return (np.concatenate(parts, axis=1),)
        return self._ungrouped(x, w, b, **attributes)

    def _ungrouped(self, x: Any, w: Any, b: Any, **attributes: Any) -> tuple[Any]:
        rank = x.ndim - 2
        ones, none = np.ones(rank, int), np.zeros(rank, int)

        def given(name: str, default: Any) -> Any:
            return default if attributes.get(name) is None else np.array(attributes[name])

        strides, dilations = given("strides", ones), given("dilations", ones)
        begins, ends = np.split(given("pads", np.zeros(2 * rank, int)), 2)
        reach = strides * (np.array(x.shape[2:]) - 1) + dilations * (np.array(w.shape[2:]) - 1) + 1
        whole = reach + given("output_padding", none)[:rank]
        shape = given("output_shape", whole - begins - ends)[-rank:]
        if attributes.get("output_shape") is not None:  # then pads follow from it, and given pads are ignored
            ends = np.maximum(whole - shape, 0) // 2
            begins = np.maximum(whole - shape, 0) - ends
        left = shape + begins + ends - reach  # beyond what the kernel reaches: below a stride, or the evaluator refuses
        plain = attributes.get("auto_pad") not in ("SAME_UPPER", "SAME_LOWER")
        if not plain or min(*begins, *ends) < 0 or not all((left >= 0) & (left < strides)):
            (result,) = super()._run(x, w, b, **attributes)
            return (result,)
        result = np.zeros((len(x), w.shape[1], *shape), x.dtype)
        for at, image in enumerate(x):
            result[at] = _spread(image, w, strides, dilations, begins, shape)
        return (result if b is None else result + b.reshape(-1, *ones),)


def _spread(image: Any, w: Any, strides: Any, dilations: Any, begins: Any, shape: Any) -> Any:
    """Return the transposed convolution of one image: each point times the kernel, added around its position."""
    channels, *sizes = image.shape
    each = np.matmul(w.reshape(channels, -1).T, image.reshape(channels, -1)).reshape(*w.shape[1:], *sizes)
    steps = strides * (np.array(sizes) - 1) + 1
    room = np.maximum(steps + dilations * (np.array(w.shape[2:]) - 1), begins + shape)
    made = np.zeros((w.shape[1], *room), each.dtype)
    for place in np.ndindex(*w.shape[2:]):
        made[(slice(None), *map(slice, place * dilations, place * dilations + steps, strides))] += each[:, *place]
    return made[(slice(None), *map(slice, begins, begins + shape))]


class Gemm(onnx_gemm.Gemm_7):
    """Gemm. The evaluator's own multiplies integers by the float `alpha`, which loses what float64 cannot hold."""

    op_domain = ""

    def _run(self, a: Any, b: Any, c: Any = None, alpha: Any = 1.0, beta: Any = 1.0, **flags: Any) -> tuple[Any]:
        if a.dtype.kind in "iu" and float(alpha).is_integer() and float(beta).is_integer():
            alpha, beta = (np.array(int(factor)).astype(a.dtype) for factor in (alpha, beta))
        (result,) = super()._run(a, b, c, alpha, beta, **flags)
        return (result,)


class Pow(OpRun):
    """Pow. The evaluator's own takes a square root for the scalar exponent 0.5, but the power of -inf is inf."""

    op_domain = ""

    def _run(self, a: Any, b: Any) -> tuple[Any]:
        shape = np.broadcast_shapes(np.shape(a), np.shape(b))
        exponents = np.broadcast_to(b, shape or (1,)).copy()  # numpy knows a scalar by its strides
        with np.errstate(all="ignore"):
            return (np.power(a, exponents).astype(a.dtype).reshape(shape),)


class GatherElements(OpRun):
    """GatherElements. The evaluator's own wraps indices that are out of range, and fails if the indices have fewer rows
    than the data, as in exported BERT models."""

    op_domain = ""

    def _run(self, data: Any, indices: Any, axis: Any = None) -> tuple[Any]:
        size = data.shape[axis or 0]
        if indices.size and not (-size <= indices.min() and indices.max() < size):
            raise IndexError(f"an index is out of range: the axis has {size} elements")
        along = (axis or 0) % data.ndim
        inside = tuple(slice(None) if at == along else slice(count) for at, count in enumerate(indices.shape))
        return (np.take_along_axis(data[inside], indices.astype(np.int64), along),)


class Resize(onnx_resize.Resize):
    """Resize. The evaluator's own multiplies all but the nearest elements by zero, so that NaN and infinities
    spread."""

    op_domain = ""

    def _run(self, x: Any, *more: Any, mode: Any = None, **attributes: Any) -> tuple[Any]:
        picks = mode in (None, "nearest") and attributes.get("coordinate_transformation_mode") != "tf_crop_and_resize"
        if not picks or not is_float(x.dtype.name) or bool(np.isfinite(x).all()):
            (result,) = super()._run(x, *more, mode=mode, **attributes)
            return (result,)
        places = np.arange(x.size, dtype=np.float64).reshape(x.shape)
        (chosen,) = super()._run(places, *more, mode=mode, **attributes)
        return (x.reshape(-1)[np.rint(chosen).astype(np.int64)],)


class QuantizeLinear(onnx_quantize_linear._CommonQuantizeLinear):
    """QuantizeLinear. The evaluator's own uses int32, where a quotient beyond 2**31 wraps instead of saturating."""

    op_domain = ""

    def _run(self, x: Any, scale: Any, zero_point: Any = None, *, axis: int = 1, **attributes: Any) -> tuple[Any]:
        steps = onnx_quantize_linear._reshape_input(scale, x.shape, axis, attributes.get("block_size"))
        with np.errstate(all="ignore"):
            far = np.abs((x / steps).astype(np.float64)) > 2.0**30
        (result,) = super()._run(np.where(far, x.dtype.type(0), x), scale, zero_point, axis=axis, **attributes)
        kind = helper.np_dtype_to_tensor_dtype(result.dtype)
        if not far.any() or kind not in onnx_quantize_linear._QUANT_INTEGER_RANGES:
            return super()._run(x, scale, zero_point, axis=axis, **attributes)  # type: ignore[no-any-return]
        least, most = onnx_quantize_linear._QUANT_INTEGER_RANGES[kind]
        return (np.where(far, np.where(x > 0, most, least), result).astype(result.dtype),)


class _OnMatrix:
    """Softmax and its kind before opset 13: they worked on a matrix, made of all axes before the given one and all from
    it on. The evaluator's own follow opset 13."""

    op_domain = ""

    def _run(self, x: Any, axis: int | None = None) -> tuple[Any]:
        attributes = self.onnx_node.attribute  # type: ignore[attr-defined]  # `axis` has the newest default
        given = next((attribute.i for attribute in attributes if attribute.name == "axis"), 1)
        rows = math.prod(x.shape[: given % max(x.ndim, 1)])
        if x.size == 0:
            return (x,)
        (result,) = super()._run(x.reshape(rows, -1), axis=1)  # type: ignore[misc]
        return (result.reshape(x.shape),)


class Softmax(_OnMatrix, onnx_softmax.Softmax):
    pass


class LogSoftmax(Softmax):
    def _run(self, x: Any, axis: int | None = None) -> tuple[Any]:
        (shares,) = super()._run(x, axis)
        with np.errstate(divide="ignore"):
            return (np.log(shares),)


class Hardmax(_OnMatrix, onnx_hardmax.Hardmax):
    pass


class _Pool:
    """Pooling. The evaluator's own treats NaN as padding and ignores it, and is slow (`onnx/pool.py`)."""

    op_domain = ""

    def _run(self, x: Any, **attributes: Any) -> tuple[Any]:
        missing = np.isnan(x)
        run = super()._run  # type: ignore[misc]
        with quick_pooling():
            if not missing.any():
                (result,) = run(x, **attributes)
                return (result,)
            (result,) = run(np.where(missing, x.dtype.type(0), x), **attributes)
            (touched,) = run(missing.astype(x.dtype), **attributes)
        return (np.where(touched > 0, x.dtype.type(np.nan), result),)


class LpPool(_Pool, onnx_lp_pool.LpPool):
    pass


class AveragePool(_Pool, onnx_average_pool.AveragePool_19):
    pass


class GlobalMaxPool(OpRun):
    """GlobalMaxPool. The evaluator's own reduces the wrong axes for inputs that are not images."""

    op_domain = ""

    def _run(self, x: Any) -> tuple[Any]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class _Recurrent(OpRun):
    """Recurrent operators. The evaluator's own ignore `clip`, sequence lengths and most activations."""

    op_domain = ""

    def _run(self, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        results = run_recurrent(PlainSteps(), self.onnx_node, list(inputs), attributes)
        return tuple(result.astype(inputs[0].dtype) for result in results)


class RNN(_Recurrent):
    pass


class GRU(_Recurrent):
    pass


class LSTM(_Recurrent):
    pass


def corrected(opset: int) -> list[type[OpRun]]:
    """Return the corrections for a model of this opset: some operators had other forms before."""
    since: dict[type[OpRun], int] = {
        AveragePool: 7,
        GRU: 7,
        Gemm: 7,
        LSTM: 7,
        RNN: 7,
        Scan: 9,
        QuantizeLinear: 10,
        Resize: 11,
    }
    later = [operator for operator, first in since.items() if opset >= first]
    matrices = [Hardmax, LogSoftmax, Softmax] if opset < 13 else []
    return [*CONTROL, ConvTranspose, Erf, GatherElements, GlobalMaxPool, LpPool, Pow, *later, *matrices]
