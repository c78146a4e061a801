"""Small complete models, delicate arithmetic, and models with randomness or foreign operators."""

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


def lenet_digit_classifier():
    nodes = [
        _n("Conv", "image c1w c1b", "c1", kernel_shape=[5, 5], pads=[2, 2, 2, 2]),
        _n("Relu", "c1", "r1"),
        _n("MaxPool", "r1", "p1", kernel_shape=[2, 2], strides=[2, 2]),
        _n("Conv", "p1 c2w c2b", "c2", kernel_shape=[3, 3]),
        _n("Relu", "c2", "r2"),
        _n("AveragePool", "r2", "p2", kernel_shape=[2, 2], strides=[2, 2]),
        _n("Flatten", "p2", "f"),
        _n("Gemm", "f f1w f1b", "g1", transB=1),
        _n("Relu", "g1", "r3"),
        _n("Gemm", "r3 f2w f2b", "logits", transB=1),
        _n("LogSoftmax", "logits", "log_probs", axis=1),
        _n("ArgMax", "logits", "digit", axis=1, keepdims=0),
    ]
    s = np.float32(0.2)
    inits = {
        "c1w": _r(191, 4, 1, 5, 5) * s,
        "c1b": _r(192, 4) * s,
        "c2w": _r(193, 6, 4, 3, 3) * s,
        "c2b": _r(194, 6) * s,
        "f1w": _r(195, 12, 24) * s,
        "f1b": _r(196, 12) * s,
        "f2w": _r(197, 10, 12) * s,
        "f2b": _r(198, 10) * s,
    }
    image = np.random.default_rng(199).uniform(0, 1, (2, 1, 12, 12)).astype(np.float32)
    return _m(12, nodes, {"image": image}, "log_probs:f32[2,10] digit:i64[2]", inits, producer="pytorch")


def transformer_encoder_block():
    nodes = [
        _n("LayerNormalization", "x ln1w ln1b", "n1", axis=-1),
        _n("MatMul", "n1 wq", "q"),
        _n("MatMul", "n1 wk", "k"),
        _n("MatMul", "n1 wv", "v"),
        _n("Reshape", "q heads", "q4"),
        _n("Reshape", "k heads", "k4"),
        _n("Reshape", "v heads", "v4"),
        _n("Transpose", "q4", "qt", perm=[0, 2, 1, 3]),
        _n("Transpose", "k4", "kt", perm=[0, 2, 3, 1]),
        _n("Transpose", "v4", "vt", perm=[0, 2, 1, 3]),
        _n("MatMul", "qt kt", "s"),
        _n("Mul", "s scale", "ss"),
        _n("Softmax", "ss", "p", axis=-1),
        _n("MatMul", "p vt", "c"),
        _n("Transpose", "c", "ct", perm=[0, 2, 1, 3]),
        _n("Reshape", "ct merge", "cm"),
        _n("MatMul", "cm wo", "o"),
        _n("Add", "x o", "h"),
        _n("LayerNormalization", "h ln2w ln2b", "n2", axis=-1),
        _n("MatMul", "n2 w1", "f1"),
        _n("Add", "f1 b1", "f1b"),
        _n("Gelu", "f1b", "act", approximate="tanh"),
        _n("MatMul", "act w2", "f2"),
        _n("Add", "f2 b2", "f2b"),
        _n("Add", "h f2b", "y"),
    ]
    s = np.float32(0.25)
    inits = {
        "ln1w": np.ones(8, np.float32),
        "ln1b": np.zeros(8, np.float32),
        "ln2w": _r(201, 8),
        "ln2b": _r(202, 8),
        "heads": _i(0, -1, 2, 4),
        "merge": _i(0, -1, 8),
        "scale": np.float32(0.5),
        "w1": _r(207, 8, 16) * s,
        "b1": _r(208, 16),
        "w2": _r(209, 16, 8) * s,
        "b2": _r(210, 8),
    }
    for k, w in enumerate(("wq", "wk", "wv", "wo")):
        inits[w] = _r(203 + k, 8, 8) * s
    return _m(20, nodes, {"x": _r(211, 2, 6, 8)}, "y:f32[b,t,8]", inits, {"x": ["b", "t", 8]}, producer="pytorch")


def lstm_sentence_classifier():
    nodes = [
        _n("Gather", "embedding tokens", "e", axis=0),
        _n("Transpose", "e", "et", perm=[1, 0, 2]),
        _n("LSTM", "et w r b lengths", "_ yh", hidden_size=5, direction="bidirectional"),
        _n("Transpose", "yh", "ht", perm=[1, 0, 2]),
        _n("Reshape", "ht flat", "h"),
        _n("Gemm", "h wo bo", "logits", transB=1),
        _n("Softmax", "logits", "probs", axis=1),
        _n("ArgMax", "probs", "label", axis=1, keepdims=0),
    ]
    s = np.float32(0.3)
    inits = {
        "embedding": _r(212, 12, 4),
        "w": _r(213, 2, 20, 4) * s,
        "r": _r(214, 2, 20, 5) * s,
        "b": _r(215, 2, 40) * s,
        "flat": _i(0, 10),
        "wo": _r(216, 3, 10),
        "bo": _r(217, 3),
    }
    feeds = {"tokens": _i(3, 7, 1, 11, 4, 2, 0, 0, 5, 5, 9, 0).reshape(3, 4), "lengths": np.array([4, 2, 3], np.int32)}
    return _m(14, nodes, feeds, "probs:f32[3,3] label:i64[3]", inits)


def gaussian_mixture_log_likelihood():
    nodes = [
        _n("Unsqueeze", "x ax1", "xe"),
        _n("Sub", "xe mu", "d"),
        _n("Mul", "d prec", "z"),
        _n("ReduceSumSquare", "z axes", "q", keepdims=0),
        _n("Mul", "q mhalf", "e"),
        _n("Add", "e log_norm", "lp"),
        _n("ReduceLogSumExp", "lp ax1", "ll", keepdims=1),
        _n("Sub", "lp ll", "log_resp"),
        _n("Exp", "log_resp", "resp"),
        _n("ReduceMean", "ll", "score", keepdims=0),
        _n("ArgMax", "resp", "component", axis=1, keepdims=0),
    ]
    inits = {
        "ax1": _i(1),
        "mu": np.array([[0, 0], [3, 3], [-2, 4]], np.float64),
        "prec": np.array([[1, 1], [2, 0.5], [0.7, 1.3]], np.float64),
        "axes": _i(2),
        "mhalf": np.float64(-0.5),
        "log_norm": np.array([-2.5, -3.0, -2.9], np.float64),
    }
    return _m(
        18,
        nodes,
        {"x": _r(218, 6, 2, dtype=np.float64) * 2},
        "resp:f64[6,3] score:f64[] component:i64[6]",
        inits,
        producer="skl2onnx",
    )


def graph_network_mean_aggregation():
    nodes = [
        _n("Split", "edges halves", "src2 dst2", axis=0),
        _n("Squeeze", "src2 ax0", "src"),
        _n("Squeeze", "dst2 ax0", "dst"),
        _n("Gather", "h src", "msg", axis=0),
        _n("MatMul", "msg w_msg", "m"),
        _n("Unsqueeze", "dst ax1", "dcol"),
        _n("ScatterND", "zeros dcol m", "agg", reduction="add"),
        _n("ScatterElements", "zero_deg dst edge_ones", "deg", axis=0, reduction="add"),
        _n("Max", "deg one", "deg1"),
        _n("Unsqueeze", "deg1 ax1", "degc"),
        _n("Div", "agg degc", "mean"),
        _n("MatMul", "h w_self", "self"),
        _n("Add", "mean self", "z"),
        _n("Relu", "z", "h1"),
        _n("ReduceMax", "h1", "readout", axes=[0], keepdims=0),
    ]
    inits = {
        "halves": _i(1, 1),
        "ax0": _i(0),
        "ax1": _i(1),
        "w_msg": _r(219, 3, 4),
        "w_self": _r(220, 3, 4),
        "zeros": np.zeros((5, 4), np.float32),
        "zero_deg": np.zeros(5, np.float32),
        "edge_ones": np.ones(7, np.float32),
        "one": np.float32(1),
    }
    edges = _i(0, 1, 2, 3, 4, 0, 2, 1, 2, 0, 2, 1, 3, 3).reshape(2, 7)
    return _m(16, nodes, {"h": _r(221, 5, 3), "edges": edges}, "h1:f32[5,4] readout:f32[4]", inits)


def k_means_single_step():
    nodes = [
        _n("Unsqueeze", "points ax1", "pe"),
        _n("Sub", "pe centres", "d"),
        _n("ReduceSumSquare", "d", "dist", axes=[2], keepdims=0),
        _n("ArgMin", "dist", "label", axis=1, keepdims=0),
        _n("OneHot", "label k off_on", "member"),
        _n("Transpose", "member", "mt", perm=[1, 0]),
        _n("MatMul", "mt points", "sums"),
        _n("ReduceSum", "mt ax1", "counts", keepdims=1),
        _n("Max", "counts one", "safe"),
        _n("Div", "sums safe", "moved"),
        _n("Equal", "counts zero", "empty"),
        _n("Where", "empty centres moved", "new_centres"),
        _n("ReduceMin", "dist", "best", axes=[1], keepdims=0),
        _n("ReduceSum", "best", "inertia", keepdims=0),
    ]
    inits = {
        "ax1": _i(1),
        "k": np.int64(3),
        "off_on": _f(0, 1),
        "one": np.float32(1),
        "zero": np.float32(0),
        "centres": _f(-1, -1, 1, 1, 50, 50).reshape(3, 2),
    }
    return _m(17, nodes, {"points": _r(222, 10, 2)}, "label:i64[10] new_centres:f32[3,2] inertia:f32[]", inits)


def linear_svm_one_versus_rest():
    nodes = [
        _n("Cast", "features", "x", to=1),
        _n("Sub", "x offset", "c"),
        _n("Mul", "c scale", "z"),
        _n("Gemm", "z coef intercept", "decision", transB=1),
        _n("ArgMax", "decision", "pos", axis=1, keepdims=0),
        _n("Gather", "classes pos", "label", axis=0),
        _n("TopK", "decision two", "top2 top2_idx", axis=1),
        _n("Slice", "top2 s0 s1 ax1", "first"),
        _n("Slice", "top2 s1 s2 ax1", "second"),
        _n("Sub", "first second", "margin"),
    ]
    inits = {
        "offset": _f(5, 3, 4, 1),
        "scale": _f(1.2, 2.3, 0.57, 1.3),
        "coef": _r(223, 3, 4),
        "intercept": _f(-0.1, 0.2, 0.0),
        "classes": _i(10, 20, 30),
        "two": _i(2),
        "s0": _i(0),
        "s1": _i(1),
        "s2": _i(2),
        "ax1": _i(1),
    }
    features = np.array([[5, 3, 1, 0], [7, 3, 4, 1], [6, 2, 5, 2], [4, 4, 6, 1]], np.int64)
    return _m(
        15, nodes, {"features": features}, "label:i64[4] decision:f32[4,3] margin:f32[4,1]", inits, producer="skl2onnx"
    )


def mixture_of_experts_top2_routing():
    nodes = [
        _n("MatMul", "x w_router", "logits"),
        _n("TopK", "logits two", "top idx", axis=-1),
        _n("Softmax", "top", "gates", axis=-1),
        _n("ConstantOfShape", "gate_shape", "zeros"),
        _n("ScatterElements", "zeros idx gates", "dense", axis=1),
        _n("Einsum", "x w_up", "up", equation="td,edf->tef"),
        _n("Relu", "up", "act"),
        _n("Einsum", "act w_down", "down", equation="tef,efd->ted"),
        _n("Unsqueeze", "dense last", "g3"),
        _n("Mul", "down g3", "weighted"),
        _n("ReduceSum", "weighted one", "mixed", keepdims=0),
        _n("Add", "x mixed", "y"),
    ]
    inits = {
        "w_router": _r(224, 4, 3),
        "two": _i(2),
        "gate_shape": _i(5, 3),
        "w_up": _r(225, 3, 4, 6),
        "w_down": _r(226, 3, 6, 4),
        "last": _i(-1),
        "one": _i(1),
    }
    return _m(15, nodes, {"x": _r(227, 5, 4)}, "y:f32[5,4] dense:f32[5,3] idx:i64[5,2]", inits)


def cancellation_variance_and_quadratic_roots():
    nodes = [
        _n("Mul", "x x", "x2"),
        _n("ReduceMean", "x2", "mean_sq", keepdims=0),
        _n("ReduceMean", "x", "mean", keepdims=0),
        _n("Mul", "mean mean", "sq_mean"),
        _n("Sub", "mean_sq sq_mean", "naive_var"),
        _n("Sub", "x mean", "d"),
        _n("ReduceSumSquare", "d", "ss", keepdims=0),
        _n("Div", "ss n", "var"),
        _n("Mul", "b b", "bb"),
        _n("Mul", "four c", "fc"),
        _n("Sub", "bb fc", "disc"),
        _n("Sqrt", "disc", "root"),
        _n("Sub", "root b", "numer"),
        _n("Mul", "numer half", "small_root"),
        _n("Add", "root b", "denom"),
        _n("Mul", "c mtwo", "mc"),
        _n("Div", "mc denom", "stable_root"),
    ]
    x = (10000 + np.random.default_rng(228).standard_normal(64)).astype(np.float32)
    inits = {"n": np.float32(64), "four": np.float32(4), "half": np.float32(0.5), "mtwo": np.float32(-2)}
    return _m(
        20,
        nodes,
        {"x": x, "b": _f(1000, 54.32, 3), "c": _f(1, 0.1, 2)},
        "naive_var:f32[] var:f32[] small_root:f32[3] stable_root:f32[3]",
        inits,
    )


def long_sums_huge_logits_and_long_contraction():
    nodes = [
        _n("ReduceSum", "x", "total", keepdims=0),
        _n("CumSum", "x axis", "running"),
        _n("Gather", "running last", "final", axis=0),
        _n("Sub", "total final", "drift"),
        _n("Einsum", "x alternating", "dot", equation="i,i->"),
        _n("Softmax", "huge", "p", axis=-1),
        _n("LogSoftmax", "huge", "lp", axis=-1),
        _n("ReduceLogSumExp", "huge", "lse", axes=[-1], keepdims=0),
    ]
    x = np.random.default_rng(229).uniform(0, 1, 20000).astype(np.float32)
    inits = {
        "axis": np.int64(0),
        "last": np.int64(-1),
        "alternating": np.where(np.arange(20000) % 2 == 0, 1, -1).astype(np.float32),
    }
    return _m(
        13,
        nodes,
        {"x": x, "huge": _f(1000, 999, -1000, 88, 89, 1e30, -1e30, 0).reshape(2, 4)},
        "total:f32[] drift:f32[] dot:f32[] p:f32[2,4] lp:f32[2,4] lse:f32[2]",
        inits,
    )


def random_noise_with_fixed_seed():
    nodes = [
        helper.make_node("RandomNormal", [], ["eps"], shape=[2, 3], mean=0.0, scale=1.0, seed=7.0),
        _n("RandomUniformLike", "x", "u", low=-1.0, high=1.0, seed=11.0),
        _n("Mul", "log_sd half", "hl"),
        _n("Exp", "hl", "sd"),
        _n("Mul", "sd eps", "noise"),
        _n("Add", "x noise", "z"),
        _n("Add", "z u", "y"),
    ]
    return _m(17, nodes, {"x": _r(230, 2, 3), "log_sd": _r(231, 2, 3)}, "y:f32[2,3]", {"half": np.float32(0.5)})


def bernoulli_sampling_and_dropout_in_training():
    nodes = [
        _n("Sigmoid", "x", "p"),
        _n("Bernoulli", "p", "sample", seed=3.0),
        _n("Dropout", "x ratio training", "dropped mask", seed=5),
        _n("Mul", "dropped sample", "y"),
    ]
    return _m(
        15,
        nodes,
        {"x": _r(232, 3, 4)},
        "y:f32[3,4] mask:bool[3,4]",
        {"ratio": np.float32(0.5), "training": np.array(True)},
    )


def foreign_operator_without_function_body():
    nodes = [
        _n("MatMul", "x w", "m"),
        _n("SwishBetaLearned", "m beta", "s", domain="com.example.kernels", fast=1),
        _n("Relu", "s", "y"),
    ]
    return _m(
        16,
        nodes,
        {"x": _r(233, 2, 3)},
        "y:f32[2,4]",
        {"w": _r(234, 3, 4), "beta": np.float32(1.5)},
        domains=["com.example.kernels"],
    )
