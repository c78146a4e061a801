"""NaN, infinities, signed zeros, subnormals and floating formats other than float32."""

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


def isnan_isinf_masking():
    nodes = [
        _n("IsNaN", "x", "nan"),
        _n("IsInf", "x", "inf"),
        _n("IsInf", "x", "neg", detect_positive=0),
        _n("IsInf", "x", "pos", detect_negative=0),
        _n("Or", "nan inf", "bad"),
        _n("Where", "bad zero x", "clean"),
    ]
    x = _f(1.0, np.nan, np.inf, -np.inf, -0.0, 3.5).reshape(2, 3)
    return _m(20, nodes, {"x": x}, "nan:bool[2,3] neg:bool[2,3] pos:bool[2,3] clean:f32[2,3]", {"zero": np.float32(0)})


def signed_zero_reciprocal():
    nodes = [
        _n("Reciprocal", "z", "inv"),
        _n("Neg", "z", "nz"),
        _n("Reciprocal", "nz", "ninv"),
        _n("Mul", "z minus", "product"),
        _n("Div", "one product", "q"),
        _n("Sqrt", "z", "root"),
    ]
    return _m(
        13,
        nodes,
        {"z": _f(0.0, -0.0, 2.0, -4.0)},
        "inv:f32[4] ninv:f32[4] q:f32[4] root:f32[4]",
        {"minus": _f(-1.0), "one": np.float32(1)},
    )


def nan_propagation_arithmetic_and_comparison():
    nodes = [
        _n("Add", "a b", "s"),
        _n("Mul", "a b", "p"),
        _n("Equal", "a a", "self_equal"),
        _n("Less", "a b", "lt"),
        _n("GreaterOrEqual", "a b", "ge"),
        _n("Not", "lt", "not_lt"),
    ]
    feeds = {"a": _f(np.nan, 1.0, np.inf, -np.inf, 0.0), "b": _f(1.0, np.nan, -np.inf, 0.0, np.inf)}
    return _m(16, nodes, feeds, "s:f32[5] p:f32[5] self_equal:bool[5] ge:bool[5] not_lt:bool[5]")


def division_by_zero_and_log_of_zero():
    nodes = [
        _n("Div", "n d", "q"),
        _n("Log", "d", "l"),
        _n("Exp", "l", "e"),
        _n("Sqrt", "n", "r"),
        _n("Concat", "q l e r", "y", axis=0),
    ]
    return _m(17, nodes, {"n": _f(1.0, -1.0, 0.0, 5.0), "d": _f(0.0, 0.0, 0.0, 2.0)}, "y:f32[16]")


def masked_softmax_with_minus_infinity():
    nodes = [
        _n("Where", "mask scores ninf", "masked"),
        _n("Softmax", "masked", "p", axis=-1),
        _n("LogSoftmax", "masked", "lp", axis=-1),
        _n("IsNaN", "p", "fully_masked"),
        _n("Where", "fully_masked zero p", "safe"),
        _n("MatMul", "safe v", "y"),
    ]
    mask = np.array([[True, True, False], [True, False, False], [False, False, False]])
    return _m(
        21,
        nodes,
        {"scores": _r(31, 3, 3), "mask": mask, "v": _r(32, 3, 2)},
        "y:f32[3,2] safe:f32[3,3] lp:f32[3,3]",
        {"ninf": np.float32(-np.inf), "zero": np.float32(0)},
    )


def saturating_activations_at_infinity():
    nodes = [
        _n("Sigmoid", "x", "sig"),
        _n("Tanh", "x", "tanh"),
        _n("Relu", "x", "relu"),
        _n("Softplus", "x", "sp"),
        _n("Erf", "x", "erf"),
        _n("Atan", "x", "atan"),
        _n("Clip", "x lo hi", "clip"),
        _n("Concat", "sig tanh relu sp erf atan clip", "y", axis=0),
    ]
    return _m(
        15,
        nodes,
        {"x": _f(-np.inf, -200.0, -0.0, 0.0, 200.0, np.inf)},
        "y:f32[42]",
        {"lo": np.float32(-6), "hi": np.float32(6)},
    )


def subnormal_scaling_roundtrip():
    nodes = [
        _n("Mul", "x tiny", "small"),
        _n("Mul", "small huge", "back"),
        _n("Greater", "small zero", "nonzero"),
    ]
    return _m(
        14,
        nodes,
        {"x": _f(1.0, 0.5, -3.0, 1e-3)},
        "small:f32[4] back:f32[4] nonzero:bool[4]",
        {"tiny": np.float32(1e-40), "huge": np.float32(1e38), "zero": np.float32(0)},
    )


def half_precision_mlp():
    inits = {
        "w1": (_r(33, 6, 8) * 0.3).astype(np.float16),
        "b1": (_r(34, 8) * 0.1).astype(np.float16),
        "w2": (_r(35, 8, 3) * 0.3).astype(np.float16),
        "b2": np.zeros(3, np.float16),
    }
    nodes = [
        _n("MatMul", "x w1", "m1"),
        _n("Add", "m1 b1", "a1"),
        _n("Relu", "a1", "h"),
        _n("MatMul", "h w2", "m2"),
        _n("Add", "m2 b2", "logits"),
        _n("Softmax", "logits", "probs", axis=-1),
    ]
    return _m(17, nodes, {"x": _r(36, 4, 6).astype(np.float16)}, "logits:f16[4,3] probs:f16[4,3]", inits)


def half_overflow_and_rounding():
    nodes = [
        _n("Add", "x x", "twice"),
        _n("IsInf", "t32", "over"),
        _n("Cast", "x", "x32", to=1),
        _n("Add", "x32 x32", "wide"),
        _n("Cast", "twice", "t32", to=1),
        _n("Sub", "wide t32", "gap"),
    ]
    nodes = [nodes[0], nodes[4], nodes[1], nodes[2], nodes[3], nodes[5]]
    x = np.array([40000.0, 65504.0, 1.0, 0.0009765625, 6e-8, 2047.0], np.float16)
    return _m(19, nodes, {"x": x}, "twice:f16[6] over:bool[6] gap:f32[6]")


def bfloat16_rounding_through_casts():
    nodes = [
        _n("Cast", "x", "xb", to=16),
        _n("Cast", "xb", "rounded", to=1),
        _n("Sub", "x rounded", "error"),
        _n("Div", "error x", "relative"),
    ]
    x = _f(1.0, 1.00390625, 1.01171875, 3.14159274, -255.5, 1e30, 7e-20)
    return _m(13, nodes, {"x": x}, "rounded:f32[7] relative:f32[7]")


def bfloat16_linear_layer():
    w = helper.make_tensor(
        "w",
        TensorProto.BFLOAT16,
        [4, 3],
        [float(v) for v in (0.5, -0.25, 1.0, 2.0, 0.125, -1.5, 0.75, 0.25, -0.5, 1.25, -2.0, 0.0625)],
    )
    b = helper.make_tensor("b", TensorProto.BFLOAT16, [3], [0.5, -0.5, 0.25])
    nodes = [
        _n("Cast", "x", "xb", to=16),
        _n("MatMul", "xb w", "mm"),
        _n("Add", "mm b", "lin"),
        _n("Relu", "lin", "act"),
        _n("Cast", "act", "y", to=1),
    ]
    x = _f(1, 2, -1, 0.5, -2, 0.25, 3, 1.5).reshape(2, 4)
    return _m(14, nodes, {"x": x}, "y:f32[2,3]", {"w": w, "b": b})


def double_precision_standardise_and_regress():
    nodes = [
        _n("Sub", "x mu", "c"),
        _n("Div", "c sd", "z"),
        _n("Gemm", "z coef intercept", "lin", transB=1),
        _n("Neg", "lin", "nl"),
        _n("Exp", "nl", "e"),
        _n("Add", "one e", "d"),
        _n("Reciprocal", "d", "p"),
    ]
    inits = {
        "mu": np.array([5.1, 3.0, 1.4], np.float64),
        "sd": np.array([0.8, 0.43, 1.76], np.float64),
        "coef": np.array([[0.3, -1.1, 2.4]], np.float64),
        "intercept": np.array([-0.25], np.float64),
        "one": np.float64(1),
    }
    x = np.array([[5.1, 3.5, 1.4], [6.2, 2.9, 4.3], [7.7, 3.8, 6.7]], np.float64)
    return _m(11, nodes, {"x": x}, "p:f64[3,1]", inits, producer="skl2onnx")


def max_min_reductions_with_infinity_identity():
    nodes = [
        _n("ReduceMax", "x axes", "mx", keepdims=0),
        _n("ReduceMin", "x axes", "mn", keepdims=0),
        _n("ReduceSum", "x axes", "sm", keepdims=0),
        _n("Max", "x floor", "clamped"),
        _n("ReduceLogSumExp", "x axes", "lse", keepdims=0),
    ]
    x = np.array([[-np.inf, -np.inf, 1.0], [np.inf, 2.0, 3.0], [-np.inf, 0.0, -0.0]], np.float32)
    return _m(
        18,
        nodes,
        {"x": x},
        "mx:f32[3] mn:f32[3] sm:f32[3] clamped:f32[3,3] lse:f32[3]",
        {"axes": _i(1), "floor": np.float32(-1e4)},
    )
