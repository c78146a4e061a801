"""Shape manipulation, gathering, scattering, padding, resizing, empty tensors."""

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


def reshape_zero_minus_one_and_allowzero():
    nodes = [
        _n("Reshape", "x copy_infer", "a"),
        _n("Reshape", "empty zero_is_zero", "b", allowzero=1),
        _n("Flatten", "x", "c", axis=-1),
        _n("Reshape", "x flat", "d"),
        _n("Size", "empty", "n"),
    ]
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(2, 3, 4), "empty": np.zeros((0, 3, 4), np.float32)}
    return _m(
        14,
        nodes,
        feeds,
        "a:f32[2,12] b:f32[3,0,2] c:f32[6,4] d:f32[24] n:i64[]",
        {"copy_infer": _i(0, -1), "zero_is_zero": _i(3, 0, 2), "flat": _i(-1)},
    )


def expand_bidirectional_and_tile():
    nodes = [
        _n("Expand", "x shape", "e"),
        _n("Tile", "e reps", "t"),
        _n("Shape", "t", "s", start=1, end=-1),
        _n("Transpose", "t", "r"),
    ]
    return _m(
        15,
        nodes,
        {"x": np.arange(6, dtype=np.int32).reshape(3, 1, 2)},
        "e:i32[3,4,2] t:i32[6,4,4] s:i64[1] r:i32[4,4,6]",
        {"shape": _i(4, 1), "reps": _i(2, 1, 2)},
    )


def slice_negative_steps_and_clamped_bounds():
    nodes = [
        _n("Slice", "x s1 e1 a1 st1", "flip"),
        _n("Slice", "x s2 e2 a2", "tail"),
        _n("Slice", "x s3 e3 a3 st3", "strided"),
        _n("Slice", "x s4 e4", "nothing"),
    ]
    big, small = 9223372036854775807, -9223372036854775807
    inits = {
        "s1": _i(-1, -1),
        "e1": _i(small, small),
        "a1": _i(0, 2),
        "st1": _i(-1, -2),
        "s2": _i(-2),
        "e2": _i(big),
        "a2": _i(-1),
        "s3": _i(20, 1),
        "e3": _i(0, 1000),
        "a3": _i(1, 2),
        "st3": _i(-2, 3),
        "s4": _i(0, 2),
        "e4": _i(2, 2),
    }
    return _m(
        20,
        nodes,
        {"x": np.arange(60, dtype=np.float32).reshape(3, 4, 5)},
        "flip:f32[3,4,3] tail:f32[3,4,2] strided:f32[3,2,2] nothing:f32[2,0,5]",
        inits,
    )


def gather_family_negative_indices():
    nodes = [
        _n("Gather", "x gi", "g", axis=1),
        _n("Gather", "x scalar", "row", axis=-2),
        _n("GatherElements", "x ge", "e", axis=1),
        _n("GatherND", "x gn", "nd"),
        _n("GatherND", "x gb", "batched", batch_dims=1),
    ]
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(3, 4) * 1.5}
    inits = {
        "gi": np.array([[-1, 0], [2, -4]], np.int32),
        "scalar": np.int64(-1),
        "ge": _i(-1, 0, -2, 3, 1, -4).reshape(3, 2),
        "gn": _i(0, -1, -3, 2).reshape(2, 2),
        "gb": _i(-1, 0, 2).reshape(3, 1),
    }
    return _m(21, nodes, feeds, "g:f32[3,2,2] row:f32[4] e:f32[3,2] nd:f32[2] batched:f32[3]", inits)


def scatter_elements_and_nd_reductions_opset18():
    nodes = [
        _n("ScatterElements", "x idx upd", "replace", axis=1),
        _n("ScatterElements", "x dup upd", "added", axis=1, reduction="add"),
        _n("ScatterElements", "x dup upd", "largest", axis=-1, reduction="max"),
        _n("ScatterND", "x nd rows", "nd_min", reduction="min"),
        _n("ScatterND", "x nd rows", "nd_mul", reduction="mul"),
    ]
    feeds = {"x": _r(51, 3, 4), "upd": _r(52, 3, 2), "rows": _r(53, 3, 4)}
    inits = {
        "idx": _i(0, -1, 1, 2, 3, 0).reshape(3, 2),
        "dup": _i(1, 1, 0, 0, 3, -1).reshape(3, 2),
        "nd": _i(0, 2, 2).reshape(3, 1),
    }
    return _m(
        18, nodes, feeds, "replace:f32[3,4] added:f32[3,4] largest:f32[3,4] nd_min:f32[3,4] nd_mul:f32[3,4]", inits
    )


def scatter_nd_add_embedding_gradient_opset16():
    nodes = [
        _n("Gather", "table ids", "emb", axis=0),
        _n("Mul", "emb lr", "step"),
        _n("Unsqueeze", "ids last", "nd_ids"),
        _n("ScatterND", "table nd_ids step", "updated", reduction="add"),
        _n("Sub", "updated table", "delta"),
    ]
    return _m(
        16,
        nodes,
        {"table": _r(54, 6, 3), "ids": _i(0, 4, 4, 5, 0)},
        "updated:f32[6,3] delta:f32[6,3]",
        {"lr": np.float32(-0.1), "last": _i(-1)},
    )


def pad_modes_with_negative_pads_opset18():
    nodes = [
        _n("Pad", "x p value", "const", mode="constant"),
        _n("Pad", "x p", "reflect", mode="reflect"),
        _n("Pad", "x p", "edge", mode="edge"),
        _n("Pad", "x crop value", "cropped"),
    ]
    inits = {"p": _i(1, 2, 0, 1), "value": np.float32(-9.5), "crop": _i(-1, 1, 0, -2)}
    return _m(
        18,
        nodes,
        {"x": np.arange(12, dtype=np.float32).reshape(3, 4)},
        "const:f32[4,7] reflect:f32[4,7] edge:f32[4,7] cropped:f32[2,3]",
        inits,
    )


def pad_wrap_and_axes_opset19():
    nodes = [
        _n("Pad", "x pads _ axes", "wrapped", mode="wrap"),
        _n("Pad", "x pads zero axes", "zeros"),
        _n("Sub", "wrapped zeros", "border"),
    ]
    return _m(
        19,
        nodes,
        {"x": _r(55, 2, 3, 4)},
        "wrapped:f32[2,3,7] border:f32[2,3,7]",
        {"pads": _i(1, 2), "axes": _i(-1), "zero": np.float32(0)},
    )


def resize_nearest_linear_and_cubic():
    nodes = [
        _n(
            "Resize",
            "x _ up",
            "nearest",
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        _n("Resize", "x _ _ size", "linear", mode="linear", coordinate_transformation_mode="half_pixel"),
        _n("Resize", "x _ _ size", "corners", mode="linear", coordinate_transformation_mode="align_corners"),
        _n(
            "Resize",
            "x _ up",
            "cubic",
            mode="cubic",
            cubic_coeff_a=-0.75,
            coordinate_transformation_mode="pytorch_half_pixel",
        ),
    ]
    inits = {"up": _f(1, 1, 2, 2), "size": _i(1, 2, 7, 5)}
    return _m(
        19,
        nodes,
        {"x": _r(56, 1, 2, 4, 4)},
        "nearest:f32[1,2,8,8] linear:f32[1,2,7,5] corners:f32[1,2,7,5] cubic:f32[1,2,8,8]",
        inits,
    )


def space_to_depth_roundtrip_and_pixel_shuffle():
    nodes = [
        _n("SpaceToDepth", "x", "s2d", blocksize=2),
        _n("DepthToSpace", "s2d", "dcr", blocksize=2, mode="DCR"),
        _n("DepthToSpace", "s2d", "crd", blocksize=2, mode="CRD"),
        _n("Sub", "dcr x", "zero"),
    ]
    return _m(
        17,
        nodes,
        {"x": np.arange(48, dtype=np.float32).reshape(1, 2, 4, 6)},
        "s2d:f32[1,8,2,3] crd:f32[1,2,4,6] zero:f32[1,2,4,6]",
    )


def reverse_sequence_and_trilu_masks():
    nodes = [
        _n("ReverseSequence", "x lens", "rev", batch_axis=0, time_axis=1),
        _n("Trilu", "sq k", "up", upper=1),
        _n("Trilu", "sq", "low", upper=0),
        _n("Trilu", "sq km", "low_strict", upper=0),
    ]
    feeds = {
        "x": np.arange(24, dtype=np.float32).reshape(3, 4, 2),
        "sq": np.arange(1, 26, dtype=np.int64).reshape(5, 5),
    }
    return _m(
        14,
        nodes,
        feeds,
        "rev:f32[3,4,2] up:i64[5,5] low:i64[5,5] low_strict:i64[5,5]",
        {"lens": _i(4, 1, 3), "k": np.int64(2), "km": np.int64(-1)},
    )


def einsum_diagonal_batch_and_ellipsis():
    nodes = [
        _n("Einsum", "a b", "bmm", equation="bij, bjk -> bik"),
        _n("Einsum", "sq", "trace", equation="ii->"),
        _n("Einsum", "a", "perm", equation="...ij->...ji"),
        _n("Einsum", "a v", "implicit", equation="bij,j"),
    ]
    return _m(
        12,
        nodes,
        {"a": _r(57, 2, 3, 4), "b": _r(58, 2, 4, 2), "sq": _r(59, 3, 3), "v": _r(60, 4)},
        "bmm:f32[2,3,2] trace:f32[] perm:f32[2,4,3] implicit:f32[2,3]",
    )


def empty_tensors_and_scalars():
    nodes = [
        _n("Concat", "empty rows", "cat", axis=0),
        _n("ReduceSum", "empty ax0", "sum_of_none", keepdims=0),
        _n("MatMul", "left empty", "zeros"),
        _n("Unsqueeze", "scalar ax0", "vec"),
        _n("Squeeze", "vec", "again"),
        _n("Add", "again again", "doubled"),
        _n("Shape", "doubled", "no_dims"),
        _n("Relu", "empty", "still_empty"),
    ]
    feeds = {
        "empty": np.zeros((0, 3), np.float32),
        "rows": _r(61, 2, 3),
        "left": np.zeros((4, 0), np.float32),
        "scalar": np.array(2.5, np.float32),
    }
    return _m(
        16,
        nodes,
        feeds,
        "cat:f32[2,3] sum_of_none:f32[3] zeros:f32[4,3] doubled:f32[] no_dims:i64[0] still_empty:f32[0,3]",
        {"ax0": _i(0)},
        {"empty": ["n", 3]},
    )
