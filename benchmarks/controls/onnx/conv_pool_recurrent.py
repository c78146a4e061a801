"""Convolutions, pooling and recurrent layers."""

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


def conv_grouped_and_depthwise_with_bias():
    nodes = [
        _n("Conv", "x w1 b1", "c1", group=2, kernel_shape=[3, 3], pads=[1, 0, 1, 2], strides=[1, 2]),
        _n("Relu", "c1", "r1"),
        _n("Conv", "r1 w2", "c2", group=6, kernel_shape=[2, 2], dilations=[2, 1]),
        _n("Conv", "c2 w3 b3", "y", kernel_shape=[1, 1]),
    ]
    inits = {
        "w1": _r(101, 6, 2, 3, 3) * np.float32(0.3),
        "b1": _r(102, 6),
        "w2": _r(103, 6, 1, 2, 2),
        "w3": _r(104, 3, 6, 1, 1),
        "b3": _r(105, 3),
    }
    return _m(11, nodes, {"x": _r(106, 2, 4, 6, 7)}, "y:f32[n,3,4,3]", inits, {"x": ["n", 4, 6, 7]}, producer="pytorch")


def causal_dilated_convolution_1d_stack():
    nodes = []
    prev = "x"
    inits = {}
    for k, d in enumerate((1, 2, 4)):
        inits["w%d" % k] = _r(107 + k, 3, 3, 2) * np.float32(0.5)
        inits["b%d" % k] = _f(0.1, -0.1, 0.0)
        nodes += [
            _n("Conv", "%s w%d b%d" % (prev, k, k), "c%d" % k, kernel_shape=[2], dilations=[d], pads=[d, 0]),
            _n("Tanh", "c%d" % k, "t%d" % k),
            _n("Add", "t%d %s" % (k, prev), "h%d" % k),
        ]
        prev = "h%d" % k
    nodes.append(_n("Identity", prev, "y"))
    return _m(14, nodes, {"x": _r(110, 1, 3, 10)}, "y:f32[1,3,10]", inits)


def conv_auto_pad_same_upper_and_lower():
    nodes = [
        _n("Conv", "x w", "up", auto_pad="SAME_UPPER", strides=[2, 2], kernel_shape=[2, 3]),
        _n("Conv", "x w", "low", auto_pad="SAME_LOWER", strides=[2, 2], kernel_shape=[2, 3]),
        _n("Conv", "x w", "valid", auto_pad="VALID", kernel_shape=[2, 3]),
        _n("MaxPool", "x", "mp", auto_pad="SAME_UPPER", kernel_shape=[3, 3], strides=[2, 2]),
        _n("AveragePool", "x", "ap", auto_pad="SAME_LOWER", kernel_shape=[2, 2]),
    ]
    return _m(
        12,
        nodes,
        {"x": _r(111, 1, 2, 5, 6)},
        "up:f32[1,3,3,3] low:f32[1,3,3,3] valid:f32[1,3,4,4] mp:f32[1,2,3,3] ap:f32[1,2,5,6]",
        {"w": _r(112, 3, 2, 2, 3)},
        producer="tf2onnx",
    )


def conv_transpose_output_padding_and_groups():
    nodes = [
        _n(
            "ConvTranspose", "x w b", "a", strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1], kernel_shape=[3, 3]
        ),
        _n("ConvTranspose", "x wg", "g", group=2, strides=[3, 1], dilations=[1, 2]),
        _n("ConvTranspose", "x w", "s", strides=[2, 2], output_shape=[5, 7]),
    ]
    inits = {"w": _r(113, 4, 2, 3, 3), "b": _f(0.5, -0.5), "wg": _r(114, 4, 3, 2, 2)}
    return _m(11, nodes, {"x": _r(115, 1, 4, 3, 4)}, "a:f32[1,2,6,8] g:f32[1,6,8,6] s:f32[1,2,5,7]", inits)


def conv3d_followed_by_global_max_pool():
    nodes = [
        _n("Conv", "x w b", "c", kernel_shape=[2, 3, 3], pads=[0, 1, 1, 1, 1, 1], strides=[1, 2, 2]),
        _n("Relu", "c", "r"),
        _n("GlobalMaxPool", "r", "g"),
        _n("Flatten", "g", "y"),
    ]
    return _m(
        16,
        nodes,
        {"x": _r(116, 2, 1, 3, 5, 5)},
        "c:f32[2,4,3,3,3] y:f32[2,4]",
        {"w": _r(117, 4, 1, 2, 3, 3), "b": _r(118, 4)},
    )


def pooling_ceil_mode_and_count_include_pad():
    nodes = [
        _n("MaxPool", "x", "mc", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        _n("MaxPool", "x", "md", kernel_shape=[2, 2], dilations=[2, 3]),
        _n("AveragePool", "x", "ae", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=0),
        _n("AveragePool", "x", "ai", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
        _n("AveragePool", "x", "ad", kernel_shape=[2, 2], strides=[2, 2], dilations=[2, 2]),
    ]
    return _m(
        19,
        nodes,
        {"x": _r(119, 1, 2, 6, 6)},
        "mc:f32[1,2,3,3] md:f32[1,2,4,3] ae:f32[1,2,6,6] ai:f32[1,2,6,6] ad:f32[1,2,2,2]",
    )


def max_pool_indices_and_unpool():
    nodes = [
        _n("MaxPool", "x", "pooled where", kernel_shape=[2, 2], strides=[2, 2]),
        _n("MaxUnpool", "pooled where", "sparse", kernel_shape=[2, 2], strides=[2, 2]),
        _n("ReduceSum", "sparse axes", "total", keepdims=0),
    ]
    x = np.random.default_rng(120).permutation(32).astype(np.float32).reshape(1, 2, 4, 4)
    return _m(20, nodes, {"x": x}, "where:i64[1,2,2,2] sparse:f32[1,2,4,4] total:f32[1,2]", {"axes": _i(2, 3)})


def lp_pool_and_global_lp_pool():
    nodes = [
        _n("LpPool", "x", "l2", kernel_shape=[2, 2], strides=[2, 1], p=2),
        _n("LpPool", "x", "l1", kernel_shape=[3, 2], p=1, pads=[1, 0, 1, 0]),
        _n("GlobalLpPool", "x", "g", p=3),
        _n("Squeeze", "g axes", "gs"),
    ]
    return _m(
        18, nodes, {"x": np.abs(_r(121, 2, 3, 4, 4))}, "l2:f32[2,3,2,3] l1:f32[2,3,4,3] gs:f32[2,3]", {"axes": _i(2, 3)}
    )


def local_response_normalisation_alexnet_head():
    nodes = [
        _n("Conv", "x w b", "c", kernel_shape=[3, 3], strides=[2, 2]),
        _n("Relu", "c", "r"),
        _n("LRN", "r", "n", size=3, alpha=2e-3, beta=0.75, bias=1.0),
        _n("MaxPool", "n", "p", kernel_shape=[2, 2], strides=[1, 1]),
        _n("GlobalAveragePool", "p", "g"),
        _n("Flatten", "g", "y"),
    ]
    return _m(
        17, nodes, {"x": _r(122, 1, 3, 9, 9)}, "n:f32[1,6,4,4] y:f32[1,6]", {"w": _r(123, 6, 3, 3, 3), "b": _r(124, 6)}
    )


def lstm_bidirectional_lengths_and_initial_states():
    nodes = [
        _n("LSTM", "x w r b lens h0 c0", "y yh yc", hidden_size=3, direction="bidirectional"),
        _n("Transpose", "y", "yt", perm=[0, 2, 1, 3]),
        _n("Reshape", "yt shape", "merged"),
    ]
    inits = {
        "w": _r(125, 2, 12, 4) * np.float32(0.3),
        "r": _r(126, 2, 12, 3) * np.float32(0.3),
        "b": _r(127, 2, 24) * np.float32(0.1),
        "shape": _i(0, 0, -1),
    }
    feeds = {"x": _r(128, 5, 2, 4), "lens": np.array([5, 3], np.int32), "h0": _r(129, 2, 2, 3), "c0": _r(130, 2, 2, 3)}
    return _m(14, nodes, feeds, "merged:f32[5,2,6] yh:f32[2,2,3] yc:f32[2,2,3]", inits, producer="pytorch")


def lstm_peephole_with_cell_clip():
    nodes = [_n("LSTM", "x w r b _ _ _ p", "y yh yc", hidden_size=2, clip=1.5)]
    inits = {
        "w": _r(131, 1, 8, 3) * np.float32(0.5),
        "r": _r(132, 1, 8, 2) * np.float32(0.5),
        "b": _r(133, 1, 16) * np.float32(0.2),
        "p": _r(134, 1, 6) * np.float32(0.1),
    }
    return _m(11, nodes, {"x": _r(135, 4, 2, 3)}, "y:f32[4,1,2,2] yh:f32[1,2,2] yc:f32[1,2,2]", inits)


def gru_linear_before_reset_variants_reverse():
    nodes = [
        _n("GRU", "x w r b", "y0 h0", hidden_size=3, linear_before_reset=0),
        _n("GRU", "x w r b", "y1 h1", hidden_size=3, linear_before_reset=1),
        _n("GRU", "x w r b _ init", "y2 h2", hidden_size=3, direction="reverse", linear_before_reset=1),
        _n("Sub", "h0 h1", "gap"),
    ]
    inits = {"w": _r(136, 1, 9, 2), "r": _r(137, 1, 9, 3) * np.float32(0.5), "b": _r(138, 1, 18) * np.float32(0.3)}
    return _m(
        14,
        nodes,
        {"x": _r(139, 4, 3, 2), "init": _r(140, 1, 3, 3)},
        "y0:f32[4,1,3,3] gap:f32[1,3,3] y2:f32[4,1,3,3] h2:f32[1,3,3]",
        inits,
    )


def vanilla_rnn_relu_two_layers_with_lengths():
    nodes = [
        _n("RNN", "x w0 r0 b0 lens", "y0", hidden_size=4, activations=["Tanh"]),
        _n("Squeeze", "y0 dir", "s0"),
        _n("RNN", "s0 w1 r1 _ lens", "y1 h1", hidden_size=2, activations=["Relu"]),
        _n("Squeeze", "h1 zero", "last"),
        _n("Gemm", "last wo bo", "y", alpha=1.0, beta=1.0, transB=1),
    ]
    inits = {
        "w0": _r(141, 1, 4, 3) * np.float32(0.5),
        "r0": _r(142, 1, 4, 4) * np.float32(0.4),
        "b0": _r(143, 1, 8) * np.float32(0.1),
        "w1": _r(144, 1, 2, 4),
        "r1": _r(145, 1, 2, 2) * np.float32(0.3),
        "dir": _i(1),
        "zero": _i(0),
        "wo": _r(146, 3, 2),
        "bo": _r(147, 3),
        "lens": np.array([6, 2, 4], np.int32),
    }
    return _m(14, nodes, {"x": _r(148, 6, 3, 3)}, "y:f32[3,3] y1:f32[6,1,3,2]", inits)
