"""The shadow of ONNX graphs: legitimate results of real runtimes raise no alarm, planted bugs are found.

Judged in this process, by the rule itself. The reference evaluator of the ONNX project is a legitimate implementation
too, in float16 one that adds up in float16; models in which it departs from the standard are named below.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import parser
from onnx_models import BY_NAME, MODELS, Model

from driftline.core.tensors import Array, Arrays
from driftline.oracle.arithmetic import IEEE, Arithmetic, declared
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.rule import JudgedOutputs, ShadowAnswer, judge_outputs
from driftline.oracle.shadow.onnx.shadow import OnnxShadow
from driftline.oracle.shadow.task import ask_shadow
from driftline.programs.onnx.evaluator import make_evaluator

# The evaluator: normalises over one axis only; forgets the absolute value; visits channels up to the batch size; does
# not compute layer norm in float32 as `stash_type` says.
EVALUATOR_IS_WRONG = {"softmax of opset 11", "lp norm", "lrn", "layer norm far from zero"}
# OpenVINO: softmax before opset 13 is over one axis instead of everything from the axis on.
OPENVINO_IS_WRONG = {"softmax of opset 11"}
# On Arm, its softplus is off by 4e-4, and ONNX Runtime adds float16 up in float16.
ON_ARM = platform.machine() == "aarch64"
if ON_ARM:
    OPENVINO_IS_WRONG.add("functions")
NAMES = [model.name for model in MODELS]


def evaluate(model: Any, arrays: Arrays) -> Arrays:
    evaluator = make_evaluator(model)
    with np.errstate(all="ignore"):
        results = evaluator.run(None, arrays)
    return {name: np.asarray(value) for name, value in zip(evaluator.output_names, results, strict=True)}


def run_onnxruntime(model: Any, arrays: Arrays, level: str) -> Arrays:
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    ort = pytest.importorskip("onnxruntime")
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    settings.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    session = ort.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, arrays), strict=True))


def run_openvino(model: Any, arrays: Arrays) -> Arrays:
    if "openvino" not in sys.modules:
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    openvino = pytest.importorskip("openvino")
    core = openvino.Core()
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    compiled = core.compile_model(core.read_model(model.SerializeToString(), b""), "CPU", config)
    request = compiled.create_infer_request()
    request.infer({index: arrays[value.name] for index, value in enumerate(model.graph.input)})
    return {o.name: np.array(request.get_output_tensor(i).data) for i, o in enumerate(model.graph.output)}


class Bench:
    """A model with one set of inputs and its shadow."""

    def __init__(self, model: Model, dtype: str, seed: int, arithmetic: Arithmetic = IEEE) -> None:
        self.model = model.build(dtype)
        self.arrays = model.inputs(self.model, seed)
        self.shadow = OnnxShadow(self.model, self.arrays, arithmetic)
        self.exact = self.shadow.reference()
        self._arithmetic = arithmetic

    def perfect(self, like: Arrays) -> Arrays:
        """The exact result, rounded once: what judging starts from, so that nothing is equal to it by construction."""
        with np.errstate(all="ignore"):
            return {name: self.exact[name].astype(value.dtype) for name, value in like.items()}

    def judge(self, got: Arrays) -> JudgedOutputs:
        def ask(runs: int, outputs: Arrays | None) -> ShadowAnswer:
            return ask_shadow(self.shadow, runs, outputs)

        return judge_outputs(got, self.perfect(got), self.exact, ask, self._arithmetic)


def legitimate(bench: Bench, model: Model) -> list[tuple[str, Arrays]]:
    """What the runtimes make of it. A runtime that refuses the model says so with an exception."""
    targets = [
        ("onnxruntime off", lambda: run_onnxruntime(bench.model, bench.arrays, "ORT_DISABLE_ALL")),
        ("onnxruntime all", lambda: run_onnxruntime(bench.model, bench.arrays, "ORT_ENABLE_ALL")),
    ]
    if model.name not in OPENVINO_IS_WRONG:
        targets.append(("openvino", lambda: run_openvino(bench.model, bench.arrays)))
    outputs = []
    for name, run in targets:
        try:
            outputs.append((name, run()))
        except Exception as error:
            if "NOT_IMPLEMENTED" not in str(error) and "not supported" not in str(error):
                raise
    return outputs


def assert_no_alarm(model: Model, dtype: str, seed: int) -> int:
    # numpy adds float16 up in float16 along some axes
    narrow = Arithmetic(half_accumulation=dtype != "float32")
    bench = Bench(model, dtype, seed)
    own = Bench(model, dtype, seed, narrow)
    outputs = legitimate(bench, model)
    for target, got in outputs:
        judged = (own if ON_ARM and "onnxruntime" in target else bench).judge(got)
        assert judged.finding is None, f"{target}: {judged.finding.reason}"
        assert judged.unruled == ()
    if model.name not in EVALUATOR_IS_WRONG:
        judged = own.judge(evaluate(own.model, own.arrays))
        assert judged.finding is None, f"evaluator: {judged.finding.reason}"
        outputs.append(("evaluator", {}))
    return len(outputs)


@pytest.mark.parametrize("name", NAMES)
def test_legitimate_results_raise_no_alarm(name: str) -> None:
    model = BY_NAME[name]
    for dtype in model.dtypes:
        assert assert_no_alarm(model, dtype, 0) >= 2  # no model may slip through unjudged


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_legitimate_results_raise_no_alarm_matrix(name: str) -> None:
    model = BY_NAME[name]
    for dtype in model.dtypes:
        for seed in range(1, 13):
            assert assert_no_alarm(model, dtype, seed) >= 2


def scaled_element(values: Array, factor: float) -> Array:
    """The largest element times a factor."""
    changed = values.copy()
    place = np.unravel_index(int(np.argmax(np.abs(values))), values.shape)
    changed[place] = changed[place] * np.asarray(factor, values.dtype)
    return changed


# what rounding may move by more than a thousandth, or cannot be scaled: integers, steps
_NOT_SCALED = {"floor and round", "ill-conditioned", "quantise"}


@pytest.mark.parametrize("name", [n for n in NAMES if n not in _NOT_SCALED])
def test_one_element_off_by_a_thousandth_is_found(name: str) -> None:
    bench = Bench(BY_NAME[name], "float32", 3)
    like = {o.name: np.zeros(0, dtype=np.float32) for o in bench.model.graph.output}
    for output in bench.model.graph.output:
        if output.type.tensor_type.elem_type != 1:
            like[output.name] = np.zeros(0, dtype=bench.exact[output.name].dtype)
    right = bench.perfect(like)
    for output, values in right.items():
        if values.dtype == np.float32:
            judged = bench.judge({**right, output: scaled_element(values, 1.001)})
            assert judged.finding is not None and judged.finding.output == output


def other_model(name: str, change: tuple[str, str], dtype: str, seed: int) -> JudgedOutputs:
    """The result of a changed model, judged as if it were that of the model."""
    bench = Bench(BY_NAME[name], dtype, seed)
    model = BY_NAME[name]
    assert change[0] in model.body
    wrong = Model(model.name, model.signature, model.outputs, model.body.replace(*change), model.opset).build(dtype)
    return bench.judge(evaluate(wrong, bench.arrays))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("softmax over axis 1", ("axis=1", "axis=2")),
        ("conv bn relu", ("pads=[1,1,1,1]", "pads=[0,2,2,0]")),
        ("gemm scaled", ("beta=2.0", "beta=1.0")),
        ("layer norm", ("LayerNormalization<axis=-1>(x, s, b)", "LayerNormalization<axis=-1>(x, s)")),
        ("attention by hand", ("axis=-1", "axis=1")),
        ("cumsum reversed", ("exclusive=1", "exclusive=0")),
        ("gru", ("hidden_size=6", "hidden_size=6, linear_before_reset=1")),
        ("resize linear", ('mode="linear"', 'mode="linear", coordinate_transformation_mode="asymmetric"')),
        ("loop", ("int64 {5}", "int64 {4}")),
        ("if", ("Greater", "Less")),
        ("clip and leaky", ("0.75", "0.7")),
        ("comparisons and where", ("Where(l, m, z)", "Where(l, z, m)")),
        ("quantise", ("0.02", "0.021")),
        ("pooling", ("AveragePool<kernel_shape=[3,3]>", "MaxPool<kernel_shape=[3,3]>")),
    ],
)
def test_wrong_models_are_found(name: str, change: tuple[str, str], dtype: str) -> None:
    assert other_model(name, change, dtype, 5).finding is not None


def test_a_dropped_term_of_a_long_sum_is_found() -> None:
    bench = Bench(BY_NAME["matmul"], "float32", 2)
    x, w = bench.arrays["x"], bench.arrays["w"]
    judged = bench.judge({"y": (x[:, :-1] @ w[:-1]).astype(np.float32)})
    assert judged.finding is not None


class TestChoices:
    def bench(self, name: str) -> tuple[Bench, Arrays]:
        bench = Bench(BY_NAME[name], "float32", 1)
        return bench, run_onnxruntime(bench.model, bench.arrays, "ORT_DISABLE_ALL")

    def test_a_bad_place_in_topk_is_found(self) -> None:
        bench, got = self.bench("topk of matmul")
        got["i"] = got["i"].copy()
        got["i"][2, 4] = (got["i"][2].max() + 1) % 50
        judged = bench.judge(got)
        assert judged.finding is not None and "valid choice" in judged.finding.reason

    def test_the_same_place_twice_is_found(self) -> None:
        bench, got = self.bench("topk of matmul")
        got["i"] = got["i"].copy()
        got["i"][0, 1] = got["i"][0, 0]
        assert bench.judge(got).finding is not None

    def test_a_wrong_argmax_is_found_and_what_follows_from_it_is_not_blamed(self) -> None:
        bench, got = self.bench("argmax and gather")
        got["i"] = (got["i"] + 1) % 20
        got["y"] = bench.arrays["table"][got["i"]]
        judged = bench.judge(got)
        assert judged.finding is not None and judged.finding.output == "i"

    def test_a_choice_among_values_that_rounding_cannot_tell_apart_is_forced(self) -> None:
        """Two columns of the weights differ by less than rounding does: either may win, and the rest must follow."""
        model = BY_NAME["argmax and gather"]
        bench = Bench(model, "float32", 1)
        winner = int(np.argmax(bench.arrays["x"][0] @ bench.arrays["w"]))
        twin = (winner + 1) % 20
        bench.arrays["w"][:, twin] = bench.arrays["w"][:, winner] * np.float32(1 + 1e-7)
        bench.shadow = OnnxShadow(bench.model, bench.arrays)
        bench.exact = bench.shadow.reference()
        chosen = bench.exact["i"].copy()
        chosen[0] = twin if chosen[0] == winner else winner
        other = {"i": chosen, "y": bench.arrays["table"][chosen]}
        assert bench.judge(other).finding is None
        for number in range(8):
            bench.shadow.sample(number)
        assert bench.shadow.force(other) == {"i": ""}
        assert np.array_equal(bench.shadow.reference()["y"], bench.arrays["table"][chosen].astype(np.float64))

    def test_the_first_of_equal_values_is_specified(self) -> None:
        model = Model("ties", "T[1,6] x", "int64[1,1] i", "i = ArgMax<axis=1>(x)")
        bench = Bench(model, "float32", 0)
        bench.arrays["x"][:] = [0, 2, 1, 2, 0, 2]
        bench.shadow = OnnxShadow(bench.model, bench.arrays)
        bench.exact = bench.shadow.reference()
        assert bench.judge({"i": np.array([[1]])}).finding is None
        assert bench.judge({"i": np.array([[3]])}).finding is not None

    def test_places_in_a_pool(self) -> None:
        model = Model(
            "pool", "T[1,1,8,8] x", "T[1,1,4,4] y, int64[1,1,4,4] i",
            "y, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)",
        )  # fmt: skip
        bench = Bench(model, "float32", 0)
        got = run_onnxruntime(bench.model, bench.arrays, "ORT_DISABLE_ALL")
        assert bench.judge(got).finding is None
        got["i"] = got["i"].copy()
        got["i"][0, 0, 1, 1] += 1 if got["i"][0, 0, 1, 1] % 8 == 2 else -1
        assert bench.judge(got).finding is not None


class TestSteps:
    def test_the_other_side_of_an_edge_is_legal_only_near_it(self) -> None:
        model = Model("step", "T[1,64] x, T[64,1] w", "T[1,1] y", "m = MatMul(x, w) y = Floor(m)")
        bench = Bench(model, "float32", 0)
        x, w = bench.arrays["x"], bench.arrays["w"]
        w[:] = w * np.float32(3.0 / float(x[0].astype(np.float64) @ w[:, 0].astype(np.float64)))  # the product is 3
        bench.shadow = OnnxShadow(bench.model, bench.arrays)
        bench.exact = bench.shadow.reference()
        assert bench.judge({"y": np.array([[2.0]], np.float32)}).finding is None
        assert bench.judge({"y": np.array([[3.0]], np.float32)}).finding is None
        assert bench.judge({"y": np.array([[12.0]], np.float32)}).finding is not None

    def test_half_to_even_counts_where_the_quotient_is_exact(self) -> None:
        model = Model(
            "quantise", "T[4] x", "int8[4] y",
            "s = Constant<value = Tscalar {0.5}>() z = Constant<value = int8 {0}>() y = QuantizeLinear(x, s, z)",
            opset=19,
        )  # fmt: skip
        bench = Bench(model, "float32", 0)
        bench.arrays["x"][:] = [0.25, 0.75, 1.25, -0.25]
        bench.shadow = OnnxShadow(bench.model, bench.arrays)
        bench.exact = bench.shadow.reference()
        assert bench.judge({"y": np.array([0, 2, 2, 0], np.int8)}).finding is None
        assert bench.judge({"y": np.array([1, 2, 3, 0], np.int8)}).finding is not None

    @pytest.mark.parametrize(
        ("before", "wrong"),
        [
            ("m = Relu(x)", True),
            ("q = Cast<to=3>(x) m = DequantizeLinear(q, s, z)", False),
            (
                "q = Cast<to=3>(x) t = Constant<value = bool {1}>() m = If (t) <"
                "then_branch = a () => (T[4] b) { b = DequantizeLinear(q, s, z) },"
                "else_branch = c () => (T[4] d) { d = Identity(x) }>",
                False,
            ),
        ],
        ids=["float", "codes", "codes in a branch"],
    )
    def test_a_quantum_off_is_a_policy_only_where_quantised_values_are_quantised_again(
        self, before: str, wrong: bool
    ) -> None:
        model = Model(
            "requantise", "T[4] x", "int8[4] y",
            f"s = Constant<value = Tscalar {{0.5}}>() z = Constant<value = int8 {{0}}>() {before}"
            " y = QuantizeLinear(m, s, z)",
            opset=19,
        )  # fmt: skip
        arithmetic = declared("requantise")
        bench = Bench(model, "float32", 0, arithmetic)
        bench.arrays["x"][:] = [1, 2, 3, 4]
        bench.shadow = OnnxShadow(bench.model, bench.arrays, arithmetic)
        bench.exact = bench.shadow.reference()
        right = evaluate(bench.model, bench.arrays)["y"]
        assert bench.judge({"y": right}).finding is None
        assert (bench.judge({"y": right + np.array([0, 1, 0, 0], np.int8)}).finding is not None) is wrong
        assert ("quantised" in bench.shadow.uses) is not wrong

    def test_quantised_values_are_followed_into_a_loop(self) -> None:
        text = """<ir_version: 8, opset_import: ["": 21]>
            g (int8[4] q, float s, int8 z, bool t, int64 n) => (int8[4] y) {
                d = DequantizeLinear(q, s, z)
                u, y = Loop (n, t, d, q) <body = b (int64 i, bool k, float[4] v, int8[4] w)
                    => (bool k2, float[4] v2, int8[4] w2) {
                        k2 = Identity(k) v2 = Relu(v) w2 = QuantizeLinear(v2, s, z) }> }"""
        arrays = {
            "q": np.array([1, 2, 3, 4], np.int8), "s": np.array(0.5, np.float32), "z": np.array(0, np.int8),
            "t": np.array(True), "n": np.array(2),
        }  # fmt: skip
        shadow = OnnxShadow(parser.parse_model(text), arrays, declared("requantise"))
        shadow.reference()
        assert "quantised" in shadow.uses

    def test_sizes_computed_in_floats_stay_what_they_are(self) -> None:
        """As exporters write it: a size doubled as a float, floored and cast."""
        model = Model(
            "size", "T[1,1,7,7] x", "T[1,1,14,14] y",
            "s = Shape(x) f = Cast<to=1>(s) d = Constant<value = float[4] {1.0,1.0,2.0,2.0}>() m = Mul(f, d)"
            ' r = Floor(m) n = Cast<to=7>(r) y = Resize<mode="linear">(x, , , n)',
        )  # fmt: skip
        bench = Bench(model, "float32", 0)
        samples = [bench.shadow.sample(number)["y"] for number in range(4)]
        assert all(sample.shape == (1, 1, 14, 14) for sample in samples)
        assert bench.judge(run_onnxruntime(bench.model, bench.arrays, "ORT_ENABLE_ALL")).finding is None


class TestRecurrent:
    """Against ONNX Runtime, since the evaluator ignores these attributes."""

    @pytest.mark.parametrize(
        ("operator", "attributes"),
        [
            ("LSTM", 'activations=["HardSigmoid","Softsign","Relu"]'),
            ("LSTM", "input_forget=1"),
            ("LSTM", "clip=0.5"),
            ("GRU", 'direction="reverse"'),
            ("GRU", 'activations=["Sigmoid","LeakyRelu"], activation_alpha=[0.3]'),
        ],
    )
    def test_attributes(self, operator: str, attributes: str) -> None:
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator] * 6
        model = Model(
            operator, f"T[7,3,8] x, T[1,{gates},8] w, T[1,{gates},6] wr", "T[7,1,3,6] y, T[1,3,6] h",
            f"y, h = {operator}<hidden_size=6, {attributes}>(x, w, wr)",
        )  # fmt: skip
        bench = Bench(model, "float32", 0)
        judged = bench.judge(run_onnxruntime(bench.model, bench.arrays, "ORT_DISABLE_ALL"))
        assert judged.finding is None, judged.finding.reason

    @pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
    @pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
    def test_sequences_of_different_lengths(self, operator: str, direction: str) -> None:
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator] * 6
        d = 2 if direction == "bidirectional" else 1
        model = Model(
            operator, f"T[7,3,8] x, T[{d},{gates},8] w, T[{d},{gates},6] wr", f"T[7,{d},3,6] y, T[{d},3,6] h",
            "n = Constant<value = int32[3] {7,3,5}>()"
            f' y, h = {operator}<hidden_size=6, direction="{direction}">(x, w, wr, , n)',
        )  # fmt: skip
        bench = Bench(model, "float32", 0)
        judged = bench.judge(run_onnxruntime(bench.model, bench.arrays, "ORT_DISABLE_ALL"))
        assert judged.finding is None, judged.finding.reason


def test_random_operators_have_no_exact_reference() -> None:
    model = Model("random", "T[4] x", "T[4] y", "r = RandomNormalLike(x) y = Add(x, r)")
    with pytest.raises(NoExactReference, match="random"):
        Bench(model, "float32", 0)


def test_an_operator_without_a_rule_is_named() -> None:
    model = Model(
        "roi", "T[1,2,8,8] x, T[2,4] positive_rois", "T[2,2,3,3] y",
        "i = Constant<value = int64[2] {0,0}>() y = RoiAlign<output_height=3, output_width=3>(x, positive_rois, i)",
    )  # fmt: skip
    assert Bench(model, "float32", 0).shadow.unruled == {"RoiAlign"}


def test_what_the_specification_leaves_open_is_found_where_it_matters() -> None:
    model = Model("open", "T[4] x", "int8[4] y, T[4] z", "y = Cast<to=3>(x) z = Relu(x)")
    bench = Bench(model, "float32", 0)
    bench.arrays["x"][:] = [1.5, 1000.0, np.nan, -2.5]
    bench.shadow = OnnxShadow(bench.model, bench.arrays)
    bench.exact = bench.shadow.reference()
    got = {"y": np.array([1, 77, 5, -2], np.int8), "z": np.array([1.5, 1000.0, 0.0, 0.0], np.float32)}
    judged = bench.judge(got)
    assert judged.finding is None
    assert set(judged.unspecified) == {"onnx.cast-out-of-range", "onnx.nan-in-max-min"}
    got["y"][0] = 2
    assert bench.judge(got).finding is not None


def _about(text: str, outputs: str, values: object) -> Bench:
    bench = Bench(Model("open choice", "T[2,7] x", outputs, text), "float32", 0)
    bench.arrays["x"][:] = values
    bench.shadow = OnnxShadow(bench.model, bench.arrays)
    bench.exact = bench.shadow.reference()
    return bench


@pytest.mark.parametrize("index", range(7))
def test_an_open_choice_that_is_compared_with_any_index_stays_open(index: int) -> None:
    values = np.arange(14.0).reshape(2, 7)
    values[0, 3] = np.nan
    text = f"i = ArgMax<axis=1, keepdims=0>(x) k = Constant<value = int64[1] {{{index}}}>() y = Equal(i, k)"
    bench = _about(text, "bool[2] y", values)
    right = np.asarray(bench.exact["y"])
    assert bench.judge({"y": right ^ np.array([True, False])}).finding is None
    assert bench.judge({"y": right ^ np.array([False, True])}).finding is not None


def test_an_open_choice_does_not_spoil_the_choices_beside_it() -> None:
    """In the second row rounding cannot tell the largest two apart: either is right, whatever the first row has."""
    values = np.zeros((2, 7))
    values[0, 3] = np.nan
    values[1, 2], values[1, 5] = 1.0, 1.0 + 1e-7
    bench = _about("z = Exp(x) i = ArgMax<axis=1, keepdims=0>(z)", "int64[2] i", values)
    for number in range(8):
        bench.shadow.sample(number)
    assert bench.judge({"i": np.array([0, 2])}).finding is None
    assert bench.judge({"i": np.array([0, 4])}).finding is not None
