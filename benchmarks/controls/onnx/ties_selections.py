"""Ties, selections, sorting and unique values."""

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


def topk_largest_with_ties():
    nodes = [_n("TopK", "scores k", "values indices", axis=-1, largest=1, sorted=1)]
    scores = _f(3, 1, 3, 2, 3, 0, 5, 5, 1, 1, 1, 1).reshape(2, 6)
    return _m(11, nodes, {"scores": scores, "k": _i(4)}, "values:f32[2,k] indices:i64[2,k]")


def topk_smallest_over_first_axis_int64():
    nodes = [
        _n("TopK", "x k", "values indices", axis=0, largest=0),
        _n("GatherElements", "x indices", "again", axis=0),
        _n("Equal", "again values", "consistent"),
    ]
    x = np.array([[7, -1, 4], [2, 9, -6], [5, 3, 8], [1, 0, 11]], np.int64)
    return _m(20, nodes, {"x": x}, "values:i64[2,3] indices:i64[2,3] consistent:bool[2,3]", {"k": _i(2)})


def topk_unsorted_order_left_open():
    nodes = [
        _n("TopK", "x k", "v i", axis=1, sorted=0),
        _n("ReduceSum", "v ax", "total", keepdims=0),
    ]
    return _m(13, nodes, {"x": _r(41, 3, 8)}, "v:f32[3,3] i:i64[3,3] total:f32[3]", {"k": _i(3), "ax": _i(1)})


def argmax_argmin_first_and_last_index():
    nodes = [
        _n("ArgMax", "x", "first", axis=1, keepdims=0),
        _n("ArgMax", "x", "last", axis=1, keepdims=0, select_last_index=1),
        _n("ArgMin", "x", "low_last", axis=-2, keepdims=1, select_last_index=1),
        _n("Equal", "first last", "unique_winner"),
    ]
    x = _f(1, 4, 4, 2, 0, 0, 0, 0, -1, -2, -1, -3).reshape(3, 4)
    return _m(13, nodes, {"x": x}, "first:i64[3] last:i64[3] low_last:i64[1,4] unique_winner:bool[3]")


def nonzero_boolean_mask_select():
    nodes = [
        _n("Greater", "x threshold", "mask"),
        _n("NonZero", "mask", "nz"),
        _n("Transpose", "nz", "coords", perm=[1, 0]),
        _n("GatherND", "x coords", "picked"),
        _n("Shape", "picked", "count"),
    ]
    return _m(
        16,
        nodes,
        {"x": _r(42, 3, 4)},
        "coords:i64[n,2] picked:f32[n] count:i64[1]",
        {"threshold": np.float32(0.2)},
        producer="pytorch",
    )


def unique_sorted_with_counts_and_inverse():
    nodes = [
        _n("Unique", "tokens", "vocab first inverse counts", sorted=1),
        _n("Gather", "vocab inverse", "rebuilt", axis=0),
        _n("ArgMax", "counts", "mode_pos", axis=0, keepdims=1),
        _n("Gather", "vocab mode_pos", "mode", axis=0),
    ]
    tokens = _i(5, 2, 9, 2, 5, 5, -1, 9)
    return _m(17, nodes, {"tokens": tokens}, "vocab:i64[u] first:i64[u] counts:i64[u] rebuilt:i64[m] mode:i64[1]")


def unique_rows_and_unsorted_first_occurrence():
    nodes = [
        _n("Unique", "rows", "ur ui", axis=0, sorted=1),
        _n("Unique", "flat", "uf _ inv", sorted=0),
    ]
    feeds = {"rows": _f(1, 0, 0, 1, 0, 0, 2, 3, 4).reshape(3, 3), "flat": _f(2.0, 1.0, 1.0, 3.0, 4.0, 3.0)}
    return _m(11, nodes, feeds, "ur:f32[r,3] ui:i64[r] uf:f32[u] inv:i64[m]")


def non_max_suppression_two_classes():
    nodes = [
        _n("NonMaxSuppression", "boxes scores max_out iou score_thr", "selected"),
        _n("Gather", "selected two", "box_ids", axis=1),
        _n("Squeeze", "boxes zero_ax", "boxes2d"),
        _n("Gather", "boxes2d box_ids", "kept", axis=0),
    ]
    boxes = _f(0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, -0.1, 1, 0.9, 0, 10, 1, 11, 0, 10.1, 1, 11.1, 0, 100, 1, 101).reshape(
        1, 6, 4
    )
    scores = _f(0.9, 0.75, 0.6, 0.95, 0.5, 0.3, 0.91, 0.74, 0.62, 0.94, 0.51, 0.29).reshape(1, 2, 6)
    inits = {"max_out": _i(2), "iou": _f(0.5), "score_thr": _f(0.35), "two": np.int64(2), "zero_ax": _i(0)}
    return _m(19, nodes, {"boxes": boxes, "scores": scores}, "selected:i64[s,3] kept:f32[s,4]", inits)


def non_max_suppression_center_point_boxes():
    nodes = [
        _n("Split", "pred sizes", "xywh conf", axis=2),
        _n("Transpose", "conf", "scores", perm=[0, 2, 1]),
        _n("NonMaxSuppression", "xywh scores limit thr", "sel", center_point_box=1),
        _n("Slice", "sel starts ends axes", "batch_box"),
        _n("GatherND", "pred batch_box", "detections"),
    ]
    pred = _f(
        0.5,
        0.5,
        1.0,
        1.0,
        0.90,
        0.5,
        0.6,
        1.0,
        1.0,
        0.75,
        0.5,
        0.4,
        1.0,
        1.0,
        0.60,
        0.5,
        10.5,
        1.0,
        1.0,
        0.95,
        0.5,
        10.6,
        1.0,
        1.0,
        0.5,
    ).reshape(1, 5, 5)
    inits = {"sizes": _i(4, 1), "limit": _i(3), "thr": _f(0.5), "starts": _i(0), "ends": _i(3), "axes": _i(1)}
    inits["starts"], inits["ends"] = _i(0), _i(9223372036854775807)
    inits["steps"] = _i(2)
    nodes[3] = _n("Slice", "sel starts ends axes steps", "batch_box")
    return _m(13, nodes, {"pred": pred}, "sel:i64[s,3] detections:f32[s,5]", inits)


def one_hot_negative_and_out_of_range_indices():
    nodes = [
        _n("OneHot", "ids depth off_on", "last"),
        _n("OneHot", "ids depth off_on", "leading", axis=0),
        _n("ReduceSum", "last axes", "hits", keepdims=0),
    ]
    return _m(
        21,
        nodes,
        {"ids": _i(0, 3, -1, -4, 7, 2).reshape(2, 3)},
        "last:f32[2,3,4] leading:f32[4,2,3] hits:f32[2,3]",
        {"depth": np.int64(4), "off_on": _f(-0.5, 2.0), "axes": _i(2)},
    )


def compress_by_axis_and_flattened():
    nodes = [
        _n("Compress", "x rows", "picked_rows", axis=0),
        _n("Compress", "x cols", "picked_cols", axis=-1),
        _n("Compress", "x flat", "picked_flat"),
    ]
    inits = {
        "rows": np.array([False, True, True]),
        "cols": np.array([True, False]),
        "flat": np.array([False, True, False, False, True]),
    }
    return _m(
        11,
        nodes,
        {"x": np.arange(12, dtype=np.float32).reshape(3, 4)},
        "picked_rows:f32[a,4] picked_cols:f32[3,b] picked_flat:f32[c]",
        inits,
    )


def ranks_from_double_argsort():
    nodes = [
        _n("Shape", "x", "shape"),
        _n("Gather", "shape last", "n", axis=0),
        _n("TopK", "x n", "sorted_x order", axis=-1, largest=0),
        _n("TopK", "order n", "order_sorted rank", axis=-1, largest=0),
        _n("Add", "rank one", "rank1"),
        _n("GatherElements", "sorted_x rank", "restored", axis=-1),
    ]
    return _m(
        14,
        nodes,
        {"x": _r(43, 2, 7)},
        "rank1:i64[2,m] restored:f32[2,m] sorted_x:f32[2,m]",
        {"last": _i(-1), "one": np.int64(1)},
    )


def nucleus_filter_of_logits():
    nodes = [
        _n("TopK", "logits k", "sorted order", axis=-1),
        _n("Softmax", "sorted", "probs", axis=-1),
        _n("CumSum", "probs axis", "cum", exclusive=1),
        _n("Less", "cum top_p", "keep"),
        _n("Where", "keep sorted ninf", "filtered"),
        _n("ScatterElements", "logits order filtered", "y", axis=-1),
        _n("ArgMax", "y", "token", axis=-1, keepdims=0),
    ]
    return _m(
        14,
        nodes,
        {"logits": _r(44, 2, 6) * 2},
        "y:f32[2,6] token:i64[2]",
        {"k": _i(6), "axis": np.int64(-1), "top_p": np.float32(0.8), "ninf": np.float32(-1e9)},
    )
