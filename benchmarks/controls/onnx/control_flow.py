"""Control flow, sequences and optionals."""

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


def _seq(name, kind, shape=None):
    return helper.make_tensor_sequence_value_info(name, _TYPES[kind], shape)


def if_chooses_sum_or_mean_with_outer_scope():
    then_g = _g("then", [_n("ReduceSum", "x", "t_out", keepdims=0)], "", "t_out:f32[]")
    else_g = _g("else", [_n("ReduceMean", "x", "m", keepdims=0), _n("Add", "m shift", "e_out")], "", "e_out:f32[]")
    nodes = [
        _n("ReduceMax", "x", "mx", keepdims=0),
        _n("Greater", "mx limit", "cond"),
        _n("If", "cond", "y", then_branch=then_g, else_branch=else_g),
        _n("Mul", "y limit", "z"),
    ]
    return _m(19, nodes, {"x": _r(71, 2, 3)}, "y:f32[] z:f32[]", {"limit": np.float32(1.0), "shift": np.float32(0.5)})


def if_branches_of_different_shape():
    then_g = _g("then", [_n("Unsqueeze", "x ax", "t")], "", "t:f32", {"ax": _i(0)})
    else_g = _g("else", [_n("Flatten", "x", "e", axis=0)], "", "e:f32")
    nodes = [
        _n("Shape", "x", "s"),
        _n("Size", "s", "rank"),
        _n("Equal", "rank two", "is_matrix"),
        _n("If", "is_matrix", "y", then_branch=then_g, else_branch=else_g),
        _n("Shape", "y", "y_shape"),
        _n("Reshape", "y minus_one", "flat"),
    ]
    return _m(13, nodes, {"x": _r(72, 4, 3)}, "y_shape:i64[r] flat:f32[m]", {"two": np.int64(2), "minus_one": _i(-1)})


def loop_running_sum_with_scan_output():
    body = _g(
        "body",
        [
            _n("Gather", "x it", "row", axis=0),
            _n("Add", "acc row", "acc_out"),
            _n("Mul", "acc_out acc_out", "sq"),
            _n("Identity", "cond_in", "cond_out"),
        ],
        "it:i64[] cond_in:bool[] acc:f32[3]",
        "cond_out:bool[] acc_out:f32[3] sq:f32[3]",
    )
    nodes = [_n("Loop", "trips cond init", "final squares", body=body)]
    return _m(
        20,
        nodes,
        {"x": _r(73, 4, 3)},
        "final:f32[3] squares:f32[t,3]",
        {"trips": np.int64(4), "cond": np.array(True), "init": np.zeros(3, np.float32)},
    )


def loop_early_exit_newton_square_root():
    body = _g(
        "body",
        [
            _n("Div", "value guess", "q"),
            _n("Add", "guess q", "s"),
            _n("Mul", "s half", "next"),
            _n("Sub", "next guess", "d"),
            _n("Abs", "d", "ad"),
            _n("Greater", "ad tol", "go_on"),
        ],
        "it:i64[] c:bool[] guess:f32[]",
        "go_on:bool[] next:f32[] next_trace:f32[]",
        {"half": np.float32(0.5), "tol": np.float32(1e-3)},
    )
    body.node.append(_n("Identity", "next", "next_trace"))
    nodes = [_n("Loop", "max_trips true start", "root trace", body=body), _n("Shape", "trace", "steps")]
    return _m(
        15,
        nodes,
        {"value": np.array(10.0, np.float32)},
        "root:f32[] trace:f32[n] steps:i64[1]",
        {"max_trips": np.int64(50), "true": np.array(True), "start": np.float32(10.0)},
    )


def loop_while_collatz_with_nested_if():
    even = _g("even", [_n("Div", "n two", "half")], "", "half:i64[]")
    odd = _g("odd", [_n("Mul", "n three", "tripled"), _n("Add", "tripled one", "plus")], "", "plus:i64[]")
    body = _g(
        "body",
        [
            _n("Mod", "n two", "parity"),
            _n("Equal", "parity zero", "is_even"),
            _n("If", "is_even", "n_next", then_branch=even, else_branch=odd),
            _n("Greater", "n_next one", "keep"),
            _n("Identity", "n_next", "orbit"),
        ],
        "it:i64[] c:bool[] n:i64[]",
        "keep:bool[] n_next:i64[] orbit:i64[]",
    )
    nodes = [_n("Loop", "_ true start", "last path", body=body)]
    inits = {"two": np.int64(2), "three": np.int64(3), "one": np.int64(1), "zero": np.int64(0), "true": np.array(True)}
    return _m(17, nodes, {"start": np.array(6, np.int64)}, "last:i64[] path:i64[t]", inits)


def loop_with_zero_trips():
    body = _g(
        "body",
        [
            _n("Add", "a one", "a_out"),
            _n("Identity", "c", "c_out"),
            _n("Mul", "a a", "trace"),
        ],
        "it:i64[] c:bool[] a:f32[2]",
        "c_out:bool[] a_out:f32[2] trace:f32[2]",
    )
    nodes = [_n("Loop", "trips cond a0", "a_final traces", body=body), _n("Shape", "traces", "shape")]
    return _m(
        21,
        nodes,
        {"a0": _f(1, 2), "trips": np.array(0, np.int64)},
        "a_final:f32[2] traces:f32[t,2] shape:i64[2]",
        {"cond": np.array(True), "one": np.float32(1)},
    )


def nested_loops_build_multiplication_table():
    inner = _g(
        "inner",
        [
            _n("Mul", "i j", "cell"),
            _n("Add", "total cell", "total_out"),
            _n("Identity", "jc", "jc_out"),
            _n("Identity", "cell", "cell_scan"),
        ],
        "j:i64[] jc:bool[] total:i64[]",
        "jc_out:bool[] total_out:i64[] cell_scan:i64[]",
    )
    outer = _g(
        "outer",
        [
            _n("Loop", "cols true_c sum_in", "sum_out row", body=inner),
            _n("Identity", "ic", "ic_out"),
        ],
        "i:i64[] ic:bool[] sum_in:i64[]",
        "ic_out:bool[] sum_out:i64[] row:i64[c]",
    )
    nodes = [_n("Loop", "rows true_c zero", "grand table", body=outer)]
    return _m(
        14,
        nodes,
        {"rows": np.array(3, np.int64), "cols": np.array(4, np.int64)},
        "grand:i64[] table:i64[r,c]",
        {"true_c": np.array(True), "zero": np.int64(0)},
    )


def scan_forward_and_reverse_cumulative_product():
    body = _g(
        "body",
        [_n("Mul", "p x_t", "p_out"), _n("Identity", "p_out", "y_t")],
        "p:f32[2] x_t:f32[2]",
        "p_out:f32[2] y_t:f32[2]",
    )
    nodes = [
        _n("Scan", "init xs", "last forward", body=body, num_scan_inputs=1),
        _n(
            "Scan",
            "init xs",
            "last_r backward",
            body=body,
            num_scan_inputs=1,
            scan_input_directions=[1],
            scan_output_directions=[1],
        ),
    ]
    return _m(
        11,
        nodes,
        {"xs": _f(1, 2, 3, 0.5, -1, 4).reshape(3, 2)},
        "last:f32[2] forward:f32[3,2] backward:f32[3,2]",
        {"init": _f(1, 1)},
    )


def scan_elman_cell_over_time_axis():
    body = _g(
        "cell",
        [
            _n("MatMul", "x_t wx", "a"),
            _n("MatMul", "h wh", "b"),
            _n("Add", "a b", "s"),
            _n("Add", "s bias", "z"),
            _n("Tanh", "z", "h_new"),
            _n("Identity", "h_new", "h_seq"),
        ],
        "h:f32[2,4] x_t:f32[2,3]",
        "h_new:f32[2,4] h_seq:f32[2,4]",
    )
    nodes = [_n("Scan", "h0 x", "h_last ys", body=body, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1])]
    inits = {
        "wx": _r(74, 3, 4) * np.float32(0.4),
        "wh": _r(75, 4, 4) * np.float32(0.4),
        "bias": _r(76, 4),
        "h0": np.zeros((2, 4), np.float32),
    }
    return _m(16, nodes, {"x": _r(77, 2, 5, 3)}, "h_last:f32[2,4] ys:f32[2,5,4]", inits)


def sequence_construct_insert_erase_at():
    nodes = [
        _n("SequenceConstruct", "a b", "s"),
        _n("SequenceInsert", "s c zero", "s2"),
        _n("SequenceErase", "s2 minus", "s3"),
        _n("SequenceLength", "s3", "len"),
        _n("SequenceAt", "s3 minus", "tail"),
        _n("ConcatFromSequence", "s2", "stacked", axis=0, new_axis=1),
    ]
    return _m(
        19,
        nodes,
        {"a": _r(78, 2, 2), "b": _r(79, 2, 2), "c": _r(80, 2, 2)},
        "len:i64[] tail:f32[2,2] stacked:f32[3,2,2]",
        {"zero": np.int64(0), "minus": np.int64(-1)},
    )


def split_to_sequence_and_concat_back():
    nodes = [
        _n("SplitToSequence", "x parts", "chunks", axis=1),
        _n("SequenceAt", "chunks one", "middle"),
        _n("SplitToSequence", "x", "columns", axis=1, keepdims=0),
        _n("SequenceAt", "columns one", "column"),
        _n("ConcatFromSequence", "chunks", "again", axis=1),
        _n("Sub", "again x", "zero"),
    ]
    return _m(
        11,
        nodes,
        {"x": np.arange(15, dtype=np.float32).reshape(3, 5)},
        "middle:f32[3,w] column:f32[3] zero:f32[3,v]",
        {"parts": _i(1, 3, 1), "one": np.int64(1)},
    )


def optional_with_and_without_element_opset18():
    some = _g("some", [_n("OptionalGetElement", "opt", "v")], "", "v:f32[2]")
    none = _g("none", [_n("Neg", "x", "w")], "", "w:f32[2]")
    nodes = [
        _n("Mul", "x x", "sq"),
        _n("Optional", "sq", "opt"),
        _n("OptionalHasElement", "opt", "has"),
        _n("If", "has", "y", then_branch=some, else_branch=none),
    ]
    return _m(18, nodes, {"x": _f(1.5, -2.0)}, "has:bool[] y:f32[2]")


def loop_carrying_a_growing_sequence():
    body = helper.make_graph(
        [
            _n("Cast", "it", "itf", to=1),
            _n("Add", "x itf", "item"),
            _n("SequenceInsert", "seq item", "seq_out"),
            _n("Identity", "c", "c_out"),
        ],
        "body",
        [_vi("it:i64[]"), _vi("c:bool[]"), _seq("seq", "f32", [2])],
        [_vi("c_out:bool[]"), _seq("seq_out", "f32", [2])],
    )
    nodes = [
        _n("SequenceEmpty", "", "empty", dtype=1),
        _n("Loop", "trips true empty", "filled", body=body),
        _n("ConcatFromSequence", "filled", "y", axis=0),
        _n("SequenceLength", "filled", "n"),
    ]
    return _m(13, nodes, {"x": _f(0.5, -0.5)}, "y:f32[m] n:i64[]", {"trips": np.int64(3), "true": np.array(True)})
