"""Quantised operators and QDQ graphs."""

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


def _ri(seed, lo, hi, shape, dtype):
    return np.random.default_rng(seed).integers(lo, hi, shape, dtype=np.int64).astype(dtype)


def quantize_linear_ties_and_saturation():
    nodes = [
        _n("QuantizeLinear", "x scale zu", "qu"),
        _n("QuantizeLinear", "x scale zi", "qi"),
        _n("QuantizeLinear", "x scale", "q_default"),
        _n("DequantizeLinear", "qi scale zi", "xi"),
    ]
    x = _f(-1000, -1.25, -0.75, -0.25, 0.0, 0.25, 0.75, 1.25, 63.4, 1000)
    return _m(
        19,
        nodes,
        {"x": x},
        "qu:u8[10] qi:i8[10] q_default:u8[10] xi:f32[10]",
        {"scale": np.float32(0.5), "zu": np.uint8(128), "zi": np.int8(-3)},
    )


def quantize_per_axis_weights_roundtrip():
    nodes = [
        _n("QuantizeLinear", "w scales zps", "q", axis=0),
        _n("DequantizeLinear", "q scales zps", "dq", axis=0),
        _n("Sub", "dq w", "err"),
        _n("Abs", "err", "abs_err"),
        _n("ReduceMax", "abs_err", "worst", axes=[1, 2], keepdims=0),
    ]
    return _m(
        13,
        nodes,
        {"w": _r(81, 4, 3, 2)},
        "q:i8[4,3,2] dq:f32[4,3,2] worst:f32[4]",
        {"scales": _f(0.02, 0.01, 0.05, 0.013), "zps": np.zeros(4, np.int8)},
    )


def qlinear_matmul_uint8_batched():
    nodes = [
        _n("QLinearMatMul", "a a_s a_z b b_s b_z y_s y_z", "qy"),
        _n("DequantizeLinear", "qy y_s y_z", "y"),
    ]
    inits = {
        "a_s": np.float32(0.0066),
        "a_z": np.uint8(113),
        "b_s": np.float32(0.00705),
        "b_z": np.uint8(114),
        "y_s": np.float32(0.0107),
        "y_z": np.uint8(118),
        "b": _ri(82, 0, 256, (4, 3), np.uint8),
    }
    return _m(11, nodes, {"a": _ri(83, 0, 256, (2, 2, 4), np.uint8)}, "qy:u8[2,2,3] y:f32[2,2,3]", inits)


def qlinear_conv_per_channel_int8_weights_and_bias():
    nodes = [
        _n("QLinearConv", "x xs xz w ws wz ys yz bias", "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    ]
    inits = {
        "xs": np.float32(0.02),
        "xz": np.uint8(120),
        "w": _ri(84, -60, 61, (4, 2, 3, 3), np.int8),
        "ws": _f(0.01, 0.005, 0.02, 0.008),
        "wz": np.zeros(4, np.int8),
        "ys": np.float32(0.05),
        "yz": np.uint8(128),
        "bias": np.array([100, -250, 0, 75], np.int32),
    }
    return _m(20, nodes, {"x": _ri(85, 0, 256, (1, 2, 6, 6), np.uint8)}, "y:u8[1,4,3,3]", inits)


def matmul_integer_with_zero_points():
    nodes = [
        _n("MatMulInteger", "a b az bz", "acc"),
        _n("MatMulInteger", "a b", "raw"),
        _n("Cast", "acc", "accf", to=1),
        _n("Mul", "accf s", "y"),
    ]
    feeds = {"a": np.array([[11, 7, 3], [10, 6, 2], [9, 5, 1], [8, 4, 0]], np.uint8)}
    inits = {
        "b": np.array([[1, 4], [2, 5], [3, 6]], np.uint8),
        "az": np.uint8(12),
        "bz": np.uint8(0),
        "s": np.float32(0.03),
    }
    return _m(16, nodes, feeds, "acc:i32[4,2] raw:i32[4,2] y:f32[4,2]", inits)


def conv_integer_pads_with_zero_point():
    nodes = [_n("ConvInteger", "x w xz", "y", kernel_shape=[2, 2], pads=[1, 1, 1, 1])]
    x = np.arange(2, 11, dtype=np.uint8).reshape(1, 1, 3, 3)
    return _m(11, nodes, {"x": x}, "y:i32[1,1,4,4]", {"w": np.ones((1, 1, 2, 2), np.uint8), "xz": np.uint8(1)})


def dynamic_quantised_linear_layer():
    nodes = [
        _n("DynamicQuantizeLinear", "x", "xq xs xz"),
        _n("MatMulInteger", "xq w xz wz", "acc"),
        _n("Cast", "acc", "accf", to=1),
        _n("Mul", "xs ws", "scale"),
        _n("Mul", "accf scale", "scaled"),
        _n("Add", "scaled bias", "y"),
    ]
    inits = {"w": _ri(86, -100, 101, (5, 3), np.int8), "wz": np.int8(0), "ws": np.float32(0.011), "bias": _r(87, 3)}
    return _m(
        17,
        nodes,
        {"x": _r(88, 4, 5)},
        "y:f32[batch,3] xs:f32[] xz:u8[]",
        inits,
        {"x": ["batch", 5]},
        producer="onnx.quantize",
    )


def dynamic_quantize_positive_and_mixed_ranges():
    nodes = [
        _n("DynamicQuantizeLinear", "positive", "qp sp zp"),
        _n("DequantizeLinear", "qp sp zp", "dp"),
        _n("DynamicQuantizeLinear", "mixed", "qm sm zm"),
        _n("DequantizeLinear", "qm sm zm", "dm"),
    ]
    feeds = {"positive": _f(1, 2.1, 1.3, 2.5, 3.34, 4.0), "mixed": _f(-1.0, -2.1, -1.3, 0.7, 0.0, 3.0).reshape(2, 3)}
    return _m(11, nodes, feeds, "qp:u8[6] sp:f32[] zp:u8[] dp:f32[6] qm:u8[2,3] dm:f32[2,3]")


def qdq_conv_relu_pool_static():
    nodes = [
        _n("QuantizeLinear", "x xs xz", "xq"),
        _n("DequantizeLinear", "xq xs xz", "xd"),
        _n("DequantizeLinear", "w ws wz", "wd", axis=0),
        _n("DequantizeLinear", "b bs bz", "bd", axis=0),
        _n("Conv", "xd wd bd", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        _n("Relu", "c", "r"),
        _n("QuantizeLinear", "r rs rz", "rq"),
        _n("DequantizeLinear", "rq rs rz", "rd"),
        _n("MaxPool", "rd", "p", kernel_shape=[2, 2], strides=[2, 2]),
        _n("QuantizeLinear", "p rs rz", "pq"),
        _n("DequantizeLinear", "pq rs rz", "y"),
    ]
    ws = _f(0.01, 0.02, 0.015)
    inits = {
        "xs": np.float32(0.03),
        "xz": np.uint8(128),
        "w": _ri(89, -50, 51, (3, 2, 3, 3), np.int8),
        "ws": ws,
        "wz": np.zeros(3, np.int8),
        "b": np.array([10, -20, 30], np.int32),
        "bs": ws * np.float32(0.03),
        "bz": np.zeros(3, np.int32),
        "rs": np.float32(0.02),
        "rz": np.uint8(0),
    }
    return _m(13, nodes, {"x": _r(90, 1, 2, 4, 4)}, "y:f32[1,3,2,2]", inits, producer="onnx.quantize")


def qdq_residual_add_and_gemm():
    nodes = [
        _n("QuantizeLinear", "x s0 z", "q0"),
        _n("DequantizeLinear", "q0 s0 z", "d0"),
        _n("DequantizeLinear", "w sw", "dw"),
        _n("Gemm", "d0 dw bias", "g", transB=1),
        _n("QuantizeLinear", "g s1 z", "q1"),
        _n("DequantizeLinear", "q1 s1 z", "d1"),
        _n("Add", "d1 d0", "sum"),
        _n("QuantizeLinear", "sum s1 z", "q2"),
        _n("DequantizeLinear", "q2 s1 z", "d2"),
        _n("LeakyRelu", "d2", "y", alpha=0.1),
    ]
    inits = {
        "s0": np.float32(0.025),
        "s1": np.float32(0.06),
        "z": np.int8(0),
        "w": _ri(91, -127, 128, (4, 4), np.int8),
        "sw": np.float32(0.004),
        "bias": _r(92, 4),
    }
    return _m(17, nodes, {"x": _r(93, 3, 4)}, "q2:i8[3,4] y:f32[3,4]", inits)


def blocked_int4_weight_dequantise_opset21():
    values = [7, -8, 3, 0, -1, 5, -6, 2, 1, -3, 4, -7, 6, -2, -4, -5, 0, 1, 2, 3, -1, -2, -3, 7]
    w = helper.make_tensor("w", TensorProto.INT4, [8, 3], values)
    nodes = [
        _n("DequantizeLinear", "w scales", "wd", axis=0, block_size=4),
        _n("MatMul", "x wd", "y"),
    ]
    return _m(
        21,
        nodes,
        {"x": _r(94, 2, 8)},
        "y:f32[2,3]",
        {"w": w, "scales": _f(0.1, 0.2, 0.05, 0.3, 0.15, 0.25).reshape(2, 3)},
    )


def sixteen_bit_activations_opset21():
    nodes = [
        _n("QuantizeLinear", "x s z16", "q"),
        _n("DequantizeLinear", "q s z16", "d"),
        _n("QuantizeLinear", "d s2", "qi", output_dtype=5),
        _n("DequantizeLinear", "qi s2", "y"),
    ]
    return _m(
        21,
        nodes,
        {"x": _r(95, 3, 5)},
        "q:u16[3,5] qi:i16[3,5] y:f32[3,5]",
        {"s": np.float32(0.0001), "z16": np.uint16(32768), "s2": np.float32(0.0003)},
    )


def half_scale_dequantise_opset19():
    nodes = [
        _n("DequantizeLinear", "q s z", "w16", axis=1),
        _n("MatMul", "x w16", "mm"),
        _n("QuantizeLinear", "mm ys yz", "yq"),
    ]
    inits = {
        "q": _ri(96, -128, 128, (4, 3), np.int8),
        "s": np.array([0.01, 0.02, 0.005], np.float16),
        "z": np.array([0, 5, -5], np.int8),
        "ys": np.float16(0.05),
        "yz": np.int8(0),
    }
    return _m(19, nodes, {"x": _r(97, 2, 4).astype(np.float16)}, "mm:f16[2,3] yq:i8[2,3]", inits)
