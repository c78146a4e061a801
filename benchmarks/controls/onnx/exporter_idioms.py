"""Idioms that exporters write: decomposed layers, shape subgraphs, functions, constants."""

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


def _c(name, value):
    return helper.make_node("Constant", [], [name], value=_t(name + "_value", value))


def gelu_erf_and_tanh_decomposed():
    nodes = [
        _c("sqrt2", np.float32(1.4142135)),
        _c("one", np.float32(1)),
        _c("half", np.float32(0.5)),
        _n("Div", "x sqrt2", "/act/Div_output_0"),
        _n("Erf", "/act/Div_output_0", "/act/Erf_output_0"),
        _n("Add", "/act/Erf_output_0 one", "/act/Add_output_0"),
        _n("Mul", "x /act/Add_output_0", "/act/Mul_output_0"),
        _n("Mul", "/act/Mul_output_0 half", "exact"),
        _c("three", np.float32(3)),
        _c("k0", np.float32(0.044715)),
        _c("k1", np.float32(0.7978845608)),
        _n("Pow", "x three", "cube"),
        _n("Mul", "cube k0", "ck"),
        _n("Add", "x ck", "inner"),
        _n("Mul", "inner k1", "arg"),
        _n("Tanh", "arg", "th"),
        _n("Add", "th one", "th1"),
        _n("Mul", "x half", "hx"),
        _n("Mul", "hx th1", "approx"),
    ]
    return _m(
        17,
        nodes,
        {"x": _r(151, 2, 3, 4) * 2},
        "exact:f32[batch,seq,4] approx:f32[batch,seq,4]",
        None,
        {"x": ["batch", "seq", 4]},
        producer="pytorch",
    )


def causal_attention_decomposed_two_heads():
    nodes = [
        _n("MatMul", "x wqkv", "qkv0"),
        _n("Add", "bqkv qkv0", "qkv"),
        _n("Split", "qkv thirds", "q k v", axis=2),
        _n("Reshape", "q heads", "qh"),
        _n("Reshape", "k heads", "kh"),
        _n("Reshape", "v heads", "vh"),
        _n("Transpose", "qh", "qt", perm=[0, 2, 1, 3]),
        _n("Transpose", "kh", "kt", perm=[0, 2, 3, 1]),
        _n("Transpose", "vh", "vt", perm=[0, 2, 1, 3]),
        _n("MatMul", "qt kt", "s"),
        _n("Div", "s root_d", "sd"),
        _n("Trilu", "ones_mask", "causal", upper=0),
        _n("Cast", "causal", "causal_b", to=9),
        _n("Where", "causal_b sd minus", "sm"),
        _n("Softmax", "sm", "p", axis=-1),
        _n("MatMul", "p vt", "o"),
        _n("Transpose", "o", "ot", perm=[0, 2, 1, 3]),
        _n("Reshape", "ot join", "oj"),
        _n("MatMul", "oj wo", "y"),
    ]
    inits = {
        "wqkv": _r(152, 8, 24) * np.float32(0.3),
        "bqkv": _r(153, 24),
        "thirds": _i(8, 8, 8),
        "heads": _i(0, 0, 2, 4),
        "root_d": np.float32(2),
        "ones_mask": np.ones((5, 5), np.float32),
        "minus": np.float32(-3.4028235e38),
        "join": _i(0, 0, 8),
        "wo": _r(154, 8, 8) * np.float32(0.3),
    }
    return _m(14, nodes, {"x": _r(155, 2, 5, 8)}, "y:f32[2,5,8]", inits, producer="pytorch")


def attention_with_padding_mask_input():
    nodes = [
        _n("Unsqueeze", "attention_mask ax12", "m4"),
        _n("Cast", "m4", "mf", to=1),
        _n("Sub", "one mf", "inv"),
        _n("Mul", "inv neg", "bias"),
        _n("Einsum", "q k", "s", equation="bhqd,bhkd->bhqk"),
        _n("Mul", "s scale", "ss"),
        _n("Add", "ss bias", "sb"),
        _n("Softmax", "sb", "p", axis=3),
        _n("Dropout", "p ratio train_off", "pd"),
        _n("Einsum", "pd v", "y", equation="bhqk,bhkd->bhqd"),
    ]
    feeds = {
        "q": _r(156, 2, 2, 3, 4),
        "k": _r(157, 2, 2, 3, 4),
        "v": _r(158, 2, 2, 3, 4),
        "attention_mask": _i(1, 1, 0, 1, 0, 0).reshape(2, 3),
    }
    inits = {
        "ax12": _i(1, 2),
        "one": np.float32(1),
        "neg": np.float32(-10000),
        "scale": np.float32(0.5),
        "ratio": np.float32(0.1),
        "train_off": np.array(False),
    }
    return _m(17, nodes, feeds, "y:f32[2,2,3,4]", inits)


def layer_norm_decomposed_against_operator():
    nodes = [
        _n("ReduceMean", "x", "mu", axes=[-1]),
        _n("Sub", "x mu", "d"),
        _n("Pow", "d two", "d2"),
        _n("ReduceMean", "d2", "var", axes=[-1]),
        _n("Add", "var eps", "ve"),
        _n("Sqrt", "ve", "sd"),
        _n("Div", "d sd", "n"),
        _n("Mul", "n w", "nw"),
        _n("Add", "nw b", "manual"),
        _n("LayerNormalization", "x w b", "fused", axis=-1, epsilon=1e-5),
        _n("Sub", "manual fused", "gap"),
        _n("Abs", "gap", "agap"),
        _n("Less", "agap tol", "close"),
    ]
    inits = {"two": np.float32(2), "eps": np.float32(1e-5), "w": _r(159, 6), "b": _r(160, 6), "tol": np.float32(1e-3)}
    return _m(17, nodes, {"x": _r(161, 2, 4, 6)}, "manual:f32[2,4,6] fused:f32[2,4,6] close:bool[2,4,6]", inits)


def rotary_position_embedding_half_rotation():
    nodes = [
        _n("Shape", "x", "len_vec", start=1, end=2),
        _n("Squeeze", "len_vec", "len"),
        _n("Range", "zero len one", "pos"),
        _n("Cast", "pos", "posf", to=1),
        _n("Unsqueeze", "posf ax1", "pos_col"),
        _n("MatMul", "pos_col inv_freq", "ang"),
        _n("Concat", "ang ang", "emb", axis=-1),
        _n("Cos", "emb", "cos"),
        _n("Sin", "emb", "sin"),
        _n("Slice", "x z1 h1 last", "x1"),
        _n("Slice", "x h1 big last", "x2"),
        _n("Neg", "x2", "nx2"),
        _n("Concat", "nx2 x1", "rot", axis=-1),
        _n("Mul", "x cos", "a"),
        _n("Mul", "rot sin", "b"),
        _n("Add", "a b", "y"),
    ]
    inits = {
        "zero": np.int64(0),
        "one": np.int64(1),
        "ax1": _i(1),
        "inv_freq": _f(1.0, 0.01).reshape(1, 2),
        "z1": _i(0),
        "h1": _i(2),
        "big": _i(9223372036854775807),
        "last": _i(-1),
    }
    return _m(
        16, nodes, {"x": _r(162, 2, 6, 4)}, "y:f32[batch,seq,4]", inits, {"x": ["batch", "seq", 4]}, producer="pytorch"
    )


def flatten_by_shape_gather_concat():
    nodes = [
        _n("Relu", "x", "r"),
        _n("Shape", "r", "sh"),
        _c("idx0", np.int64(0)),
        _n("Gather", "sh idx0", "batch", axis=0),
        helper.make_node("Unsqueeze", ["batch"], ["bvec"], axes=[0]),
        _c("minus_one", _i(-1)),
        _n("Concat", "bvec minus_one", "target", axis=0),
        _n("Reshape", "r target", "flat"),
        _n("Gemm", "flat w b", "y", transB=1),
    ]
    return _m(
        11,
        nodes,
        {"x": _r(163, 3, 2, 2, 2)},
        "y:f32[n,5]",
        {"w": _r(164, 5, 8), "b": _r(165, 5)},
        {"x": ["n", 2, 2, 2]},
        producer="pytorch",
    )


def torch_expand_as_idiom_with_constant_of_shape():
    nodes = [
        _c("want", _i(-1, 4, -1)),
        _n("Shape", "want", "rank"),
        helper.make_node(
            "ConstantOfShape", ["rank"], ["ones"], value=helper.make_tensor("v", TensorProto.INT64, [1], [1])
        ),
        _c("m1", np.int64(-1)),
        _n("Mul", "ones m1", "neg"),
        _n("Equal", "want neg", "is_neg"),
        _n("Where", "is_neg ones want", "shape"),
        _n("Expand", "x shape", "big"),
        _n("Add", "big y", "z"),
    ]
    return _m(13, nodes, {"x": _r(166, 2, 1, 3), "y": _r(167, 1, 4, 1)}, "z:f32[2,4,3]", producer="pytorch")


def dropout_and_identity_in_inference():
    nodes = [
        _n("Dropout", "x", "d mask"),
        _n("Identity", "d", "i1"),
        _n("Identity", "i1", "i2"),
        _n("Dropout", "i2 ratio", "d2"),
        _n("Not", "mask", "dropped"),
        _n("Cast", "mask", "mf", to=1),
        _n("Mul", "d2 mf", "y"),
    ]
    return _m(12, nodes, {"x": _r(168, 3, 4)}, "y:f32[3,4] dropped:bool[3,4] i2:f32[3,4]", {"ratio": np.float32(0.7)})


def local_function_with_attribute_reference():
    clip = helper.make_node("LeakyRelu", ["s"], ["out"])
    ref = clip.attribute.add()
    ref.name, ref.ref_attr_name, ref.type = "alpha", "slope", 1
    linear = helper.make_function(
        "my.layers",
        "LinearLeaky",
        ["x", "w", "b"],
        ["out"],
        [_n("MatMul", "x w", "m"), _n("Add", "m b", "s"), clip],
        [helper.make_opsetid("", 16)],
        ["slope"],
    )
    nodes = [
        _n("LinearLeaky", "x w1 b1", "h", domain="my.layers", slope=0.1),
        _n("LinearLeaky", "h w2 b2", "y", domain="my.layers", slope=0.5),
    ]
    inits = {"w1": _r(169, 4, 6), "b1": _r(170, 6), "w2": _r(171, 6, 2), "b2": _r(172, 2)}
    return _m(16, nodes, {"x": _r(173, 3, 4)}, "y:f32[3,2]", inits, functions=[linear], domains=["my.layers"])


def nested_functions_from_dynamo_export():
    op = [helper.make_opsetid("", 18), helper.make_opsetid("pkg.torch_lib", 1)]
    silu = helper.make_function(
        "pkg.torch_lib", "aten_silu", ["self"], ["res"], [_n("Sigmoid", "self", "g"), _n("Mul", "self g", "res")], op
    )
    glu = helper.make_function(
        "pkg.torch_lib",
        "swiglu",
        ["a", "b"],
        ["res"],
        [_n("aten_silu", "a", "sa", domain="pkg.torch_lib"), _n("Mul", "sa b", "res")],
        op,
    )
    nodes = [
        _n("MatMul", "x w_gate", "gate"),
        _n("MatMul", "x w_up", "up"),
        _n("swiglu", "gate up", "hidden", domain="pkg.torch_lib"),
        _n("MatMul", "hidden w_down", "down"),
        _n("Add", "down x", "y"),
    ]
    inits = {"w_gate": _r(174, 4, 6), "w_up": _r(175, 4, 6), "w_down": _r(176, 6, 4)}
    return _m(18, nodes, {"x": _r(177, 2, 4)}, "y:f32[2,4]", inits, functions=[silu, glu], domains=["pkg.torch_lib"])


def constants_to_fold_and_dead_branches():
    nodes = [
        helper.make_node("Constant", [], ["ci"], value_ints=[2, 3]),
        helper.make_node("Constant", [], ["cf"], value_float=0.25),
        _n("ConstantOfShape", "ci", "zeros"),
        _n("Range", "r0 r1 r2", "ramp"),
        _n("Reshape", "ramp ci", "grid"),
        _n("Cast", "grid", "gridf", to=1),
        _n("Mul", "gridf cf", "table"),
        _n("Add", "table zeros", "table2"),
        _n("Add", "x table2", "y"),
        _n("Exp", "x", "dead"),
        _n("Log", "dead", "deader"),
        _n("Mul", "y unit", "z"),
    ]
    inits = {"r0": np.int64(1), "r1": np.int64(12), "r2": np.int64(2), "unit": np.float32(1), "never_used": _r(178, 50)}
    return _m(19, nodes, {"x": _r(179, 2, 3)}, "z:f32[2,3] table:f32[2,3]", inits)


def initialisers_inputs_and_copies_as_outputs():
    nodes = [
        _n("Add", "x bias", "s"),
        _n("Identity", "s", "s_copy"),
        _n("Identity", "s", "s_copy_2"),
        _n("Identity", "bias", "bias_out"),
    ]
    return _m(
        15,
        nodes,
        {"x": _r(180, 2, 3), "unused": _i(7, 8), "overridable": _f(1, 2)},
        "bias:f32[3] x:f32[2,3] s:f32[2,3] s_copy:f32[2,3] s_copy_2:f32[2,3] bias_out:f32[3] overridable:f32[2]",
        {"bias": _f(0.5, -0.5, 0.25), "overridable": _f(-1, -2)},
    )


def gemm_transposes_scales_and_broadcast_c():
    nodes = [
        _n("Gemm", "a b c_row", "g0", transA=1, transB=1, alpha=0.5, beta=2.0),
        _n("Gemm", "a b c_col", "g1", transA=1, transB=1, alpha=-1.0),
        _n("Gemm", "a b c_scalar", "g2", transA=1, transB=1, beta=0.25),
        _n("Gemm", "a b", "g3", transA=1, transB=1),
        _n("Gemm", "g0 g1", "g4", transB=1),
    ]
    feeds = {"a": _r(181, 4, 3), "b": _r(182, 5, 4)}
    return _m(
        20,
        nodes,
        feeds,
        "g0:f32[3,5] g1:f32[3,5] g2:f32[3,5] g3:f32[3,5] g4:f32[3,3]",
        {"c_row": _r(183, 5), "c_col": _r(184, 3, 1), "c_scalar": np.float32(3)},
    )
