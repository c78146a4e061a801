"""Elementwise arithmetic, broadcasting, comparisons, casts."""

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


def affine_channel_broadcast_opset13():
    nodes = [
        _n("Sub", "image mean", "centred"),
        _n("Div", "centred std", "scaled"),
        _n("Mul", "scaled gamma", "g"),
        _n("Add", "g beta", "y"),
    ]
    inits = {
        "mean": _f(0.485, 0.456, 0.406).reshape(3, 1, 1),
        "std": _f(0.229, 0.224, 0.225).reshape(1, 3, 1, 1),
        "gamma": np.float32(1.5),
        "beta": _f(0.1, -0.2, 0.3, 0.4, -0.5),
    }
    image = np.random.default_rng(1).uniform(0, 1, (2, 3, 4, 5)).astype(np.float32)
    return _m(13, nodes, {"image": image}, "y:f32[n,3,4,5]", inits, {"image": ["n", 3, 4, 5]}, producer="pytorch")


def modulo_signs_integer_and_fmod():
    nodes = [
        _n("Mod", "a b", "python_style"),
        _n("Mod", "a b", "c_style", fmod=1),
        _n("Mod", "x y", "float_fmod", fmod=1),
        _n("Sub", "python_style c_style", "difference"),
        _n("Mod", "u m", "unsigned"),
    ]
    feeds = {
        "a": np.array([-4, 7, 5, 4, -7, 8, 0, -9], np.int32),
        "b": np.array([2, -3, 8, -2, 3, 5, 4, -4], np.int32),
        "x": _f(-4.3, 7.2, 5.0, 4.3, -7.2, 8.0),
        "y": _f(2.1, -3.4, 8.0, -2.1, 3.4, 5.0),
        "u": np.array([0, 7, 200, 255], np.uint8),
    }
    return _m(
        17,
        nodes,
        feeds,
        "python_style:i32[8] c_style:i32[8] float_fmod:f32[6] difference:i32[8] unsigned:u8[4]",
        {"m": np.array([3, 4, 9, 16], np.uint8)},
    )


def power_with_mixed_integer_types():
    nodes = [
        _n("Pow", "base_i32 square", "int_by_float"),
        _n("Pow", "base_i64 exps", "int_by_int"),
        _n("Pow", "base_f exps", "float_by_int"),
        _n("Pow", "positive half", "roots"),
    ]
    feeds = {
        "base_i32": np.array([[-3, -2, -1], [0, 5, 11]], np.int32),
        "base_i64": _i(2, 3, -7, 10),
        "base_f": _f(0.5, -1.5, 2.0, 3.25),
        "positive": _f(4.0, 2.25, 0.01),
    }
    inits = {"square": np.float32(2.0), "exps": _i(10, 0, 3, 5), "half": _f(0.5)}
    return _m(15, nodes, feeds, "int_by_float:i32[2,3] int_by_int:i64[4] float_by_int:f32[4] roots:f32[3]", inits)


def unpack_nibbles_bitshift_bitwise():
    nodes = [
        _n("BitShift", "packed four", "high", direction="RIGHT"),
        _n("BitwiseAnd", "packed mask", "low"),
        _n("BitShift", "high four", "high_again", direction="LEFT"),
        _n("BitwiseOr", "high_again low", "repacked"),
        _n("BitwiseXor", "repacked packed", "should_be_zero"),
        _n("BitwiseNot", "packed", "inverted"),
        _n("Concat", "high low", "nibbles", axis=1),
    ]
    packed = np.array([[0x12, 0xFE, 0x80], [0x00, 0xFF, 0x5A]], np.uint8)
    return _m(
        18,
        nodes,
        {"packed": packed},
        "nibbles:u8[2,6] should_be_zero:u8[2,3] inverted:u8[2,3]",
        {"four": np.uint8(4), "mask": np.array([0x0F], np.uint8)},
    )


def integer_quotient_and_remainder():
    nodes = [
        _n("Div", "pixels tile", "q"),
        _n("Mul", "q tile", "covered"),
        _n("Sub", "pixels covered", "rest"),
        _n("Neg", "rest", "minus_rest"),
        _n("Abs", "minus_rest", "abs_rest"),
        _n("Equal", "abs_rest zero", "exact"),
    ]
    pixels = _i(17, 0, 64, 1023, 5, 31)
    return _m(
        14, nodes, {"pixels": pixels}, "q:i64[6] rest:i64[6] exact:bool[6]", {"tile": np.int64(16), "zero": np.int64(0)}
    )


def cast_float_to_every_integer():
    x = _f(-100.7, -1.5, -0.5, -0.0, 0.49, 0.5, 1.999, 2.5, 126.9)
    nodes = [_n("Abs", "x", "ax")]
    outs = []
    for kind in ("i8", "i16", "i32", "i64", "bool"):
        nodes.append(_n("Cast", "x", "to_" + kind, to=_TYPES[kind]))
        outs.append(f"to_{kind}:{kind}[9]")
    for kind in ("u8", "u16", "u32", "u64"):
        nodes.append(_n("Cast", "ax", "to_" + kind, to=_TYPES[kind]))
        outs.append(f"to_{kind}:{kind}[9]")
    nodes.append(_n("Cast", "to_bool", "bool_as_float", to=1))
    outs.append("bool_as_float:f32[9]")
    return _m(19, nodes, {"x": x}, " ".join(outs))


def cast_precision_ladder():
    nodes = [
        _n("Cast", "x", "x32", to=1),
        _n("Cast", "x32", "x16", to=10),
        _n("Cast", "x16", "back64", to=11),
        _n("Sub", "x back64", "loss"),
        _n("Abs", "loss", "abs_loss"),
        _n("CastLike", "abs_loss x16", "loss16"),
    ]
    x = np.array([[1 / 3, 2049.0, 65504.0], [1e-4, 0.1, -3.14159265358979]], np.float64)
    return _m(21, nodes, {"x": x}, "x16:f16[2,3] back64:f64[2,3] loss:f64[2,3] loss16:f16[2,3]")


def interval_test_with_where():
    nodes = [
        _n("Greater", "x lo", "above"),
        _n("Less", "x hi", "below"),
        _n("And", "above below", "inside"),
        _n("Not", "inside", "outside"),
        _n("Xor", "above below", "one_sided"),
        _n("Or", "outside flags", "replace"),
        _n("Where", "replace fallback x", "y"),
        _n("Where", "one_sided pos neg", "codes"),
    ]
    feeds = {"x": _r(3, 2, 4, 3), "flags": np.array([[True], [False], [False], [True]])}
    inits = {
        "lo": _f(-0.5),
        "hi": _f(0.25, 0.5, 1.0),
        "fallback": np.full((2, 1, 1), 9, np.float32),
        "pos": np.int64(1),
        "neg": np.int64(-1),
    }
    return _m(11, nodes, feeds, "y:f32[2,4,3] codes:i64[2,4,3]", inits)


def clip_with_missing_bounds_opset12():
    nodes = [
        _n("Clip", "x lo", "lower_only"),
        _n("Clip", "x _ hi", "upper_only"),
        _n("Clip", "x lo hi", "both"),
        _n("Clip", "k klo khi", "ints"),
        _n("Clip", "x", "none"),
    ]
    feeds = {"x": _r(4, 3, 4) * 3, "k": np.array([-128, -5, 0, 5, 127], np.int8), "lo": np.array(-1.0, np.float32)}
    inits = {"hi": np.float32(2.0), "klo": np.int8(-4), "khi": np.int8(100)}
    return _m(12, nodes, feeds, "lower_only:f32[3,4] upper_only:f32[3,4] both:f32[3,4] ints:i8[5] none:f32[3,4]", inits)


def variadic_broadcast_statistics():
    nodes = [
        _n("Sum", "a b c", "total"),
        _n("Mean", "a b c", "average"),
        _n("Max", "a b c", "largest"),
        _n("Min", "a b c", "smallest"),
        _n("Sub", "largest smallest", "range"),
        _n("Max", "i j", "imax"),
        _n("Sum", "a", "single"),
    ]
    feeds = {
        "a": _r(5, 2, 3),
        "b": _r(6, 3),
        "c": _r(7, 4, 1, 1),
        "i": np.array([1, -5, 7], np.int32),
        "j": np.array([[2], [-9]], np.int32),
    }
    return _m(13, nodes, feeds, "total:f32[4,2,3] average:f32[4,2,3] range:f32[4,2,3] imax:i32[2,3] single:f32[2,3]")


def large_int64_equality_beyond_float_precision():
    nodes = [
        _n("Equal", "ids query", "hit"),
        _n("GreaterOrEqual", "ids query", "ge"),
        _n("LessOrEqual", "ids query", "le"),
        _n("Sub", "ids query", "delta"),
        _n("Cast", "hit", "hit_i", to=7),
        _n("Mul", "hit_i ids", "selected"),
        _n("Sign", "delta", "sign"),
    ]
    ids = _i(9007199254740993, 9007199254740992, 4611686018427387905, -9007199254740993)
    return _m(
        16,
        nodes,
        {"ids": ids},
        "hit:bool[4] ge:bool[4] le:bool[4] delta:i64[4] selected:i64[4] sign:i64[4]",
        {"query": np.int64(9007199254740993)},
    )


def activation_collection_opset18():
    ops = [
        ("LeakyRelu", {"alpha": 0.02}),
        ("Elu", {"alpha": 0.7}),
        ("Selu", {}),
        ("Celu", {"alpha": 2.0}),
        ("ThresholdedRelu", {"alpha": 0.5}),
        ("HardSigmoid", {"alpha": 0.25, "beta": 0.4}),
        ("HardSwish", {}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("Mish", {}),
        ("Shrink", {"lambd": 0.6, "bias": 0.1}),
    ]
    nodes = [_n(op, "x", "o%d" % k, **at) for k, (op, at) in enumerate(ops)]
    nodes.append(_n("PRelu", "x slope", "o11"))
    nodes.append(_n("Concat", " ".join("o%d" % k for k in range(12)), "y", axis=0))
    x = np.linspace(-4, 4, 20, dtype=np.float32).reshape(1, 4, 5)
    return _m(18, nodes, {"x": x}, "y:f32[12,4,5]", {"slope": _f(0.1, 0.2, 0.3, 0.4).reshape(4, 1)})


def wrapping_integer_overflow_on_purpose():
    nodes = [
        _n("Add", "a one", "wrapped_add"),
        _n("Mul", "u u", "wrapped_mul"),
        _n("Sub", "u big", "wrapped_sub"),
        _n("Cast", "a", "narrow", to=3),
    ]
    feeds = {"a": np.array([2147483647, -2147483648, 300, -129], np.int32), "u": np.array([16, 255, 3], np.uint8)}
    return _m(
        20,
        nodes,
        feeds,
        "wrapped_add:i32[4] wrapped_mul:u8[3] wrapped_sub:u8[3] narrow:i8[4]",
        {"one": np.int32(1), "big": np.uint8(20)},
    )
