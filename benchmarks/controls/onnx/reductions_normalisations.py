"""Reductions and normalisation layers across opsets."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

_TYPES = {
    "f32": 1,
    "u8": 2,
    "i8": 3,
    "u16": 4,
    "i16": 5,
    "i32": 6,
    "i64": 7,
    "str": 8,
    "bool": 9,
    "f16": 10,
    "f64": 11,
    "u32": 12,
    "u64": 13,
    "bf16": 16,
}
_IR = {11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10}


def _n(op, ins="", outs="", **attrs):
    def names(text):
        return ["" if x == "_" else x for x in text.split()]

    return helper.make_node(op, names(ins), names(outs), **attrs)


def _vi(spec):
    name, _, rest = spec.partition(":")
    kind, bracket, dims = rest.partition("[")
    shape = None
    if bracket:
        shape = [int(d) if d.isdigit() else d for d in dims.rstrip("]").split(",") if d]
    return helper.make_tensor_value_info(name, _TYPES[kind], shape)


def _t(name, array):
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(np.shape(array)), name)


def _g(name, nodes, ins, outs, inits=None):
    return helper.make_graph(
        nodes,
        name,
        [_vi(x) for x in ins.split()],
        [_vi(x) for x in outs.split()],
        [_t(k, v) if not isinstance(v, TensorProto) else v for k, v in (inits or {}).items()],
    )


def _m(opset, nodes, feeds, outs, inits=None, dyn=None, name="main_graph", producer="", functions=(), domains=()):
    ins = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), (dyn or {}).get(k, list(v.shape)))
        for k, v in feeds.items()
    ]
    graph = _g(name, nodes, "", outs, inits)
    graph.input.extend(ins)
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    model = helper.make_model(graph, opset_imports=opsets, functions=list(functions), producer_name=producer)
    model.ir_version = _IR[opset]
    return model, feeds


def _r(seed, *shape, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _f(*values):
    return np.array(values, dtype=np.float32)


def _i(*values):
    return np.array(values, dtype=np.int64)


def reduce_family_attribute_axes_opset11():
    ops = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare"]
    nodes = [_n(op, "x", "r%d" % k, axes=[1, -1], keepdims=1) for k, op in enumerate(ops)]
    nodes.append(_n("Concat", " ".join("r%d" % k for k in range(8)), "y", axis=1))
    return _m(11, nodes, {"x": _r(11, 2, 3, 4)}, "y:f32[2,8,1]")


def reduce_family_input_axes_opset18():
    nodes = [
        _n("ReduceMean", "x axes_last", "m", keepdims=1),
        _n("ReduceMax", "x axes_two", "mx", keepdims=0),
        _n("ReduceLogSumExp", "x axes_last", "lse", keepdims=0),
        _n("ReduceLogSum", "ax axes_two", "ls", keepdims=1),
        _n("Abs", "x", "ax"),
        _n("ReduceL2", "x", "whole", keepdims=0),
    ]
    nodes = [nodes[4], *nodes[:4], *nodes[5:]]
    return _m(
        18,
        nodes,
        {"x": _r(12, 2, 5, 3)},
        "m:f32[2,5,1] mx:f32[5] lse:f32[2,5] ls:f32[1,5,1] whole:f32[]",
        {"axes_last": _i(-1), "axes_two": _i(0, 2)},
    )


def reduce_sum_noop_with_empty_axes():
    nodes = [
        _n("ReduceSum", "x empty", "same", noop_with_empty_axes=1),
        _n("ReduceSum", "x empty", "all", noop_with_empty_axes=0),
        _n("ReduceSum", "x", "also_all", keepdims=0),
        _n("ReduceSum", "x axes", "rows", keepdims=0),
        _n("Div", "same all", "fraction"),
    ]
    return _m(
        13,
        nodes,
        {"x": np.arange(1, 13, dtype=np.float32).reshape(3, 4)},
        "same:f32[3,4] all:f32[1,1] also_all:f32[] rows:f32[3] fraction:f32[3,4]",
        {"empty": np.zeros(0, np.int64), "axes": _i(1)},
    )


def reduce_integers_and_booleans_opset20():
    nodes = [
        _n("ReduceMax", "flags axis", "any", keepdims=0),
        _n("ReduceMin", "flags axis", "all", keepdims=0),
        _n("ReduceSum", "k axis", "ksum", keepdims=0),
        _n("ReduceProd", "k axis", "kprod", keepdims=1),
        _n("ReduceMin", "u", "umin", keepdims=0),
        _n("ReduceL1", "k axis", "kabs", keepdims=0),
    ]
    feeds = {
        "flags": np.array([[True, False, True], [True, True, True], [False, False, False]]),
        "k": np.array([[1, -2, 3], [4, 5, -6], [7, 0, 9]], np.int32),
        "u": np.array([[200, 17], [31, 255]], np.uint8),
    }
    return _m(
        20, nodes, feeds, "any:bool[3] all:bool[3] ksum:i32[3] kprod:i32[3,1] umin:u8[] kabs:i32[3]", {"axis": _i(1)}
    )


def layer_normalization_with_statistics_outputs():
    nodes = [_n("LayerNormalization", "x scale bias", "y mean inv_std", axis=-2, epsilon=1e-3)]
    return _m(
        17,
        nodes,
        {"x": _r(13, 2, 3, 4) * 4 + 1},
        "y:f32[2,3,4] mean:f32[2,1,1] inv_std:f32[2,1,1]",
        {"scale": _r(14, 3, 4), "bias": _r(15, 3, 4)},
    )


def batch_normalization_inference_resnet_style():
    inits = {
        "g": _f(1.0, 0.5, 2.0, 0.1),
        "b": _f(0.0, 1.0, -1.0, 0.5),
        "mu": _f(0.1, -0.2, 0.3, 0.0),
        "var": _f(1.0, 0.25, 4.0, 1e-3),
        "g2": _f(1, 1, 1, 1),
        "b2": _f(0, 0, 0, 0),
    }
    nodes = [
        _n("BatchNormalization", "x g b mu var", "bn1", epsilon=1e-5),
        _n("Relu", "bn1", "r1"),
        _n("BatchNormalization", "r1 g2 b2 mu var", "bn2", epsilon=1e-3, momentum=0.99),
        _n("Add", "bn2 x", "res"),
        _n("Relu", "res", "y"),
    ]
    return _m(14, nodes, {"x": _r(16, 2, 4, 3, 3)}, "y:f32[batch,4,3,3]", inits, {"x": ["batch", 4, 3, 3]})


def batch_normalization_training_mode_running_stats():
    nodes = [
        _n(
            "BatchNormalization",
            "x scale bias mean var",
            "y new_mean new_var",
            training_mode=1,
            momentum=0.9,
            epsilon=1e-5,
        )
    ]
    inits = {
        "scale": _f(1.0, 2.0, 0.5),
        "bias": _f(0.0, -1.0, 1.0),
        "mean": _f(0.0, 0.5, 1.0),
        "var": _f(1.0, 1.0, 2.0),
    }
    return _m(15, nodes, {"x": _r(17, 4, 3, 5)}, "y:f32[4,3,5] new_mean:f32[3] new_var:f32[3]", inits)


def instance_normalization_style_transfer():
    nodes = [
        _n("Pad", "x pads", "padded", mode="reflect"),
        _n("InstanceNormalization", "padded s b", "normed", epsilon=1e-4),
        _n("Relu", "normed", "act"),
        _n("GlobalAveragePool", "act", "pooled"),
        _n("Flatten", "pooled", "y", axis=1),
    ]
    inits = {"pads": _i(0, 0, 1, 1, 0, 0, 1, 1), "s": _f(1.0, 0.8, 1.2), "b": _f(0.1, 0.0, -0.1)}
    return _m(13, nodes, {"x": _r(18, 2, 3, 4, 4)}, "normed:f32[2,3,6,6] y:f32[2,3]", inits)


def group_normalization_opset21_per_channel():
    nodes = [
        _n("GroupNormalization", "x scale bias", "gn", num_groups=2, epsilon=1e-5),
        _n("Sigmoid", "gn", "gate"),
        _n("Mul", "gn gate", "y"),
    ]
    return _m(
        21,
        nodes,
        {"x": _r(19, 2, 6, 3, 2)},
        "y:f32[2,6,3,2]",
        {"scale": _f(1, 2, 3, 0.5, 0.25, 1.5), "bias": _f(0, 0.1, 0.2, 0.3, 0.4, 0.5)},
    )


def group_normalization_decomposed_reshape():
    nodes = [
        _n("Reshape", "x split", "grouped"),
        _n("InstanceNormalization", "grouped one zero", "inorm", epsilon=1e-5),
        _n("Shape", "x", "full"),
        _n("Reshape", "inorm full", "back"),
        _n("Mul", "back weight", "scaled"),
        _n("Add", "scaled shift", "y"),
    ]
    inits = {
        "split": _i(0, 2, -1),
        "one": _f(1, 1),
        "zero": _f(0, 0),
        "weight": _r(20, 4, 1, 1),
        "shift": _r(21, 4, 1, 1),
    }
    return _m(12, nodes, {"x": _r(22, 3, 4, 2, 5)}, "y:f32[3,4,2,5]", inits, producer="pytorch")


def lp_normalization_cosine_similarity():
    nodes = [
        _n("LpNormalization", "a", "na", axis=-1, p=2),
        _n("LpNormalization", "b", "nb", axis=1, p=2),
        _n("Transpose", "nb", "nbt", perm=[1, 0]),
        _n("MatMul", "na nbt", "cos"),
        _n("LpNormalization", "cos", "l1", axis=0, p=1),
    ]
    return _m(11, nodes, {"a": _r(23, 3, 5), "b": _r(24, 4, 5)}, "cos:f32[3,4] l1:f32[3,4]")


def softmax_coerced_to_2d_opset11():
    nodes = [
        _n("Softmax", "x", "default_axis"),
        _n("Softmax", "x", "last", axis=2),
        _n("LogSoftmax", "x", "log_default"),
        _n("Hardmax", "x", "hard_default", axis=1),
    ]
    return _m(
        11,
        nodes,
        {"x": _r(25, 2, 3, 4)},
        "default_axis:f32[2,3,4] last:f32[2,3,4] log_default:f32[2,3,4] hard_default:f32[2,3,4]",
    )


def softmax_single_axis_opset13():
    nodes = [
        _n("Softmax", "x", "middle", axis=1),
        _n("Softmax", "x", "default_axis"),
        _n("LogSoftmax", "x", "log_first", axis=0),
        _n("Hardmax", "x", "hard_middle", axis=-2),
        _n("Exp", "log_first", "p"),
        _n("ReduceSum", "p axis", "ones", keepdims=0),
    ]
    return _m(
        13,
        nodes,
        {"x": _r(25, 2, 3, 4)},
        "middle:f32[2,3,4] default_axis:f32[2,3,4] log_first:f32[2,3,4] hard_middle:f32[2,3,4] ones:f32[3,4]",
        {"axis": _i(0)},
    )
