"""At the edges of the range and of the standard: what may come out there, and what still may not."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from onnx import parser

from driftline.core.tensors import Array, Arrays
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.rule import JudgedOutputs, ShadowAnswer, judge_outputs
from driftline.oracle.shadow.onnx.shadow import OnnxShadow
from driftline.oracle.shadow.player import Player
from driftline.programs.onnx.evaluator import make_evaluator

LARGEST = float(np.finfo(np.float32).max)
INF, NAN = np.inf, np.nan


def finds(model: str, given: dict[str, Any], got: Any) -> bool:
    """Is this output of the model, whose text is `signature { nodes }`, a finding? Inputs have its types."""
    return judged(model, given, got).finding is not None


def judged(model: str, given: dict[str, Any], got: Any) -> JudgedOutputs:
    """The judgement on this output of the model, as in `finds`."""
    built = _built(model)
    doubles = "double" in model
    arrays = {name: _array(value, doubles) for name, value in given.items()}
    native = _evaluated(built, arrays)
    player = Player(OnnxShadow(built, arrays))

    def ask(runs: int, outputs: Arrays | None) -> ShadowAnswer:
        return player.ask(runs, outputs)

    (name, expected), *_ = native.items()
    output = np.asarray(got).astype(expected.dtype).reshape(expected.shape)
    return judge_outputs({name: output}, native, player.reference(), ask)


def _built(model: str) -> Any:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> edge {model}')


def _array(value: Any, doubles: bool) -> Array:
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.kind == "f" and not doubles else array


def _evaluated(model: Any, arrays: Arrays) -> Arrays:
    evaluator = make_evaluator(model)
    with np.errstate(all="ignore"):
        results = evaluator.run(None, arrays)
    return {name: np.asarray(result) for name, result in zip(evaluator.output_names, results, strict=True)}


class TestPartialResults:
    """The order of the terms decides whether a partial result overflows."""

    mean = "(float[4] x) => (float[1] y) { y = ReduceMean(x) }"
    product = "(float[4] x) => (float[1] y) { y = ReduceProd(x) }"
    pool = "(float[1,1,4] x) => (float[1,1,1] y) { y = GlobalAveragePool(x) }"
    matmul = "(float[1,4] x, float[4,1] w) => (float[1,1] y) { y = MatMul(x, w) }"
    large = (0.5 * LARGEST, 0.7 * LARGEST, -0.5 * LARGEST, -0.7 * LARGEST)

    @pytest.mark.parametrize("got", [0.0, INF, -INF, NAN])
    def test_a_mean_whose_sum_may_overflow(self, got: float) -> None:
        assert not finds(self.mean, {"x": self.large}, [got])
        assert not finds(self.pool, {"x": np.reshape(self.large, (1, 1, 4))}, [[[got]]])

    @pytest.mark.parametrize("got", [0.0, INF, NAN])
    def test_a_product_of_matrices(self, got: float) -> None:
        ones = np.ones((4, 1))
        assert not finds(self.matmul, {"x": [self.large], "w": ones}, [[got]])
        assert finds(self.matmul, {"x": [[1.0, 2.0, 1.0, 2.0]], "w": ones}, [[got]])

    @pytest.mark.parametrize("got", [1.0, INF, 0.0])
    def test_a_product_whose_factors_are_far_apart(self, got: float) -> None:
        assert not finds(self.product, {"x": (1e30, 1e30, 1e-30, 1e-30)}, [got])

    @pytest.mark.parametrize("got", [INF, NAN, 3.0])
    def test_what_cannot_overflow_must_not(self, got: float) -> None:
        x = np.array((0.1, 0.2, 0.3, 0.4)) * LARGEST
        assert finds(self.mean, {"x": x * 0.1}, [got])
        assert finds(self.product, {"x": (1e10, 1e10, 1e-10, 1e-10)}, [got])

    @pytest.mark.parametrize("got", [0.0, INF, -INF, NAN])
    def test_doubles_whose_sum_overflows_in_the_reference_too(self, got: float) -> None:
        most = np.finfo(np.float64).max
        model = "(double[4] x) => (double[1] y) { y = ReduceMean(x) }"
        assert not finds(model, {"x": np.array([most, most, -most, -most])}, [got])
        assert finds(model, {"x": np.array([1.0, 2.0, -1.0, 2.0])}, [got])

    def test_infinity_and_a_product_that_overflows(self) -> None:
        """Fused, the large product is added before it overflows; otherwise two infinities meet."""
        given = {"x": [[INF, 3.0, 0.0, 0.0]], "w": [[1.0], [-LARGEST], [0.0], [0.0]]}
        assert not finds(self.matmul, given, [[NAN]])
        assert finds(self.matmul, given | {"w": [[1.0], [-1.0], [0.0], [0.0]]}, [[NAN]])


RECURRENT = {
    "RNN": ("(float[1,1,4] x, float[1,1,4] w, float[1,1,1] r, float[1,1,1] h) => (float[1,1,1,1] y)"
            " { y = RNN<hidden_size=1>(x, w, r, , , h) }", -1.0),
    "GRU": ("(float[1,1,4] x, float[1,3,4] w, float[1,3,1] r, float[1,1,1] h) => (float[1,1,1,1] y)"
            " { y = GRU<hidden_size=1>(x, w, r, , , h) }", 1.0),
    "LSTM": ("(float[1,1,4] x, float[1,4,4] w, float[1,4,1] r, float[1,1,1] h) => (float[1,1,1,1] y)"
             " { y = LSTM<hidden_size=1>(x, w, r, , , h) }", 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", RECURRENT)
class TestGates:
    """A gate is a sum like that of a matrix product: in some orders it overflows, and the gate is shut or open."""

    terms = np.array([0.8, 0.8, -0.8, -0.75])

    def given(self, name: str, x: Array) -> dict[str, Any]:
        gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[name]
        return {"x": [[x]], "w": np.ones((1, gates, 4)), "r": np.ones((1, gates, 1)), "h": [[[-1.13]]]}

    def test_an_order_in_which_the_sum_overflows(self, name: str) -> None:
        model, shut = RECURRENT[name]
        assert not finds(model, self.given(name, self.terms * LARGEST), shut)

    def test_a_state_that_overflows(self, name: str) -> None:
        """The step after it may have any result, too; the sequence beside it may not."""
        model, _ = RECURRENT[name]
        longer = {"float[1,1,4] x": "float[2,2,4] x", "float[1,1,1] h": "float[1,2,1] h", "1,1,1,1] y": "2,1,2,1] y"}
        for one, other in longer.items():
            model = model.replace(one, other)
        small = np.array([0.1, 0.2, -0.3, 0.4])
        given = self.given(name, small) | {
            "x": [[self.terms * LARGEST, small], [small, small]],
            "h": [[[-1.13], [0.5]]],
        }
        right = _evaluated(_built(model), {key: _array(value, False) for key, value in given.items()})["y"]
        assert not finds(model, given, np.where(np.arange(2)[None, None, :, None] == 0, 0.3, right))
        assert finds(model, given, right + np.array([0.0, 1e-3])[None, None, :, None])

    def test_gates_within_the_range_are_judged(self, name: str) -> None:
        model, shut = RECURRENT[name]
        assert finds(model, self.given(name, self.terms * LARGEST / 8), shut)
        given = self.given(name, np.array([0.1, 0.2, -0.3, 0.4]))
        right = _evaluated(_built(model), {key: _array(value, False) for key, value in given.items()})["y"]
        assert not finds(model, given, right * (1 + 1e-7))
        assert finds(model, given, right + 1e-3)


class TestEqualTerms:
    """Equal terms round the same way again and again."""

    model = "(float[1000] x) => (float[1] y) { y = ReduceSum(x) }"
    terms = np.full(1000, 0.1, np.float32)

    def test_one_after_the_other(self) -> None:
        total = np.float32(0.0)
        for term in self.terms:
            total += term
        assert abs(float(total) - 100.0) > 5e-4  # far more than a walk of a thousand roundings
        assert not finds(self.model, {"x": self.terms}, [total])

    def test_one_too_many_is_found(self) -> None:
        assert finds(self.model, {"x": self.terms}, [100.1])

    def test_different_terms_walk(self) -> None:
        x = np.random.default_rng(0).random(1000).astype(np.float32)
        exact = x.astype(np.float64).sum()
        assert finds(self.model, {"x": x}, [exact * (1 + 1e-4)])


class TestDomains:
    """Rounding decides on which side of the edge of a domain an argument lies."""

    logarithm = "(float[1] x) => (float[1] y) { v = Selu(x) y = Log(v) }"
    to_integer = "(float[1] x) => (uint64[1] y) { t = Tanh(x) d = Sub(x, t) r = Sqrt(d) y = Cast<to=13>(r) }"
    largest = "(float[3] x) => (int64[1] y) { t = Tanh(x) d = Sub(x, t) q = Reciprocal(d) y = ArgMax(q) }"

    @pytest.mark.parametrize("got", [NAN, -INF, -20.0])
    def test_the_logarithm_of_nearly_nothing(self, got: float) -> None:
        assert not finds(self.logarithm, {"x": [-1e-14]}, [got])

    @pytest.mark.parametrize("got", [-INF, INF, 0.0])
    def test_the_logarithm_of_a_negative_number(self, got: float) -> None:
        assert finds(self.logarithm, {"x": [-1.0]}, [got])

    def test_an_integer_of_what_may_be_no_number(self) -> None:
        assert not finds(self.to_integer, {"x": [-8e-17]}, [1 << 63])
        assert finds(self.to_integer, {"x": [100.0]}, [1 << 63])

    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_a_choice_among_what_may_be_infinite(self, place: int) -> None:
        assert not finds(self.largest, {"x": [1.0, 1.0, -8e-19]}, [place])
        assert finds(self.largest, {"x": [1.0, 2.0, 3.0]}, [place or 1])


class TestChoicesThatAreNotReturned:
    """What is computed from a choice among nearly equal elements."""

    model = "(float[5] x) => (int64[1] y) { v = Erf(x) i = ArgMin(v) y = Neg(i) }"

    def test_any_of_them(self) -> None:
        near = 0.7 * (1 + 1e-7 * np.arange(5))
        assert not any(finds(self.model, {"x": near}, [-place]) for place in range(5))

    def test_none_of_the_others(self) -> None:
        assert finds(self.model, {"x": [0.7, 0.3, 0.9, 0.5, 0.6]}, [-3])

    def test_a_choice_among_the_places_that_were_chosen(self) -> None:
        """As OpenVINO 2024.1 was accused of: its TopK took other ones of equal elements, and ArgMax went by them."""
        model = "(float[4] x, int64[1] k) => (int64[1] y) { v = Erf(x) w, i = TopK(v, k) y = ArgMax(i) }"
        near = 0.7 * (1 + 1e-7 * np.arange(4))
        assert not any(finds(model, {"x": near, "k": [2]}, [place]) for place in (0, 1))
        assert finds(model, {"x": [0.7, 0.3, 0.9, 0.5], "k": [2]}, [1])


class TestOpen:
    """What the standard says nothing about."""

    def test_nan_among_the_largest(self) -> None:
        model = "(float[5] x, int64[1] k) => (bool[5] y) { v, i = TopK(x, k) y = IsNaN(v) }"
        given = {"x": [0.0, 0.0, 0.0, 0.0, NAN], "k": [5]}
        assert not finds(model, given, [False, False, True, False, False])
        assert finds(model, given | {"x": [0.0, 0.0, 0.0, 0.0, 1.0]}, [False, False, True, False, False])

    def test_places_of_places(self) -> None:
        model = "(float[7,7] x, int64[1] k) => (int64[7,7] y) { v, i = TopK<axis=0>(x, k) w, y = TopK<axis=0>(i, k) }"
        given = {"x": np.full((7, 7), NAN), "k": [7]}
        got = np.argsort(np.random.default_rng(0).random((7, 7)), axis=0)
        assert not finds(model, given, got)

    def test_a_missing_bound(self) -> None:
        model = "(float[1] x, float[1] w) => (float y) { v = MatMul(x, w) y = Clip(v) }"
        assert not finds(model, {"x": [2.0], "w": [-LARGEST]}, -LARGEST)
        assert finds(model, {"x": [2.0], "w": [-1.0]}, -LARGEST)

    def test_three_operands(self) -> None:
        model = (
            '(float[1,2] a, float[2,1] b, float[2] c) => (float[1] y) { y = Einsum<equation="ij,jk,k->i">(a, b, c) }'
        )
        given = {"a": [[0.0, 1.0]], "b": [[1.0], [1.0]], "c": [0.0, -INF]}
        assert not finds(model, given, [-INF])
        assert finds(model, given | {"c": [0.0, -1.0]}, [-INF])

    def test_overflow_in_integers_that_shows_only_in_large_ones(self) -> None:
        model = "(int64[2] x, int64[1] w) => (int64[1] y) { s = ReduceSum(x) p = Mul(s, w) y = Max(p, w) }"
        given = {"x": [2**62, 2**62], "w": [1 << 32]}
        assert not finds(model, given, [3419343459879013133])
        assert finds(model, given | {"x": [2, 3]}, [3419343459879013133])

    def test_a_slope_that_is_infinite(self) -> None:
        model = "(float[2] x, float[2] s) => (float[2] y) { y = PRelu(x, s) }"
        assert not finds(model, {"x": [0.0, -1.0], "s": [INF, 2.0]}, [0.0, -2.0])
        assert not finds(model, {"x": [0.0, -1.0], "s": [INF, 2.0]}, [NAN, -2.0])
        assert finds(model, {"x": [0.0, -1.0], "s": [1.0, 2.0]}, [NAN, -2.0])


class TestTheEvaluator:
    """Where the evaluator of the ONNX project departs from the definition of an operator, it is set right."""

    def test_the_root_of_minus_infinity(self) -> None:
        model = "(float x, float e) => (float y) { y = Pow(x, e) }"
        assert not finds(model, {"x": np.float32(-INF), "e": np.float32(0.5)}, INF)
        assert finds(model, {"x": np.float32(-INF), "e": np.float32(0.5)}, NAN)

    @pytest.mark.parametrize("odd", [NAN, INF])
    def test_the_nearest_is_alone(self, odd: float) -> None:
        model = """(float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { y = Resize<mode="nearest">(x, "", s) }"""
        given = {"x": [[[[1.0, 2.0], [3.0, odd]]]], "s": np.array([1.0, 1.0, 2.0, 2.0])}
        right = np.array([[[[1.0, 2.0], [3.0, odd]]]]).repeat(2, axis=2).repeat(2, axis=3)
        assert not finds(model, given, right)
        assert finds(model, given, np.where(right == 2.0, odd, right))


def test_weights_of_an_interpolation_are_shared() -> None:
    """All that lies at one place along an axis is multiplied with the same weights, and so drifts together."""
    model = """(float[32,7,3,1] x, int64[4] s) => (float[32,7,5,3] y) {
        y = Resize<mode="cubic", coordinate_transformation_mode="half_pixel">(x, "", "", s) }"""
    x = np.random.default_rng(0).standard_normal((32, 7, 3, 1)).astype(np.float32)
    given = {"x": x, "s": [32, 7, 5, 3]}
    built = _built(model)
    (exact,) = OnnxShadow(built, {"x": x, "s": np.array([32, 7, 5, 3])}).reference().values()
    assert not finds(model, given, exact * (1 + np.array([0.0, 1.5e-7, -1.5e-7])))
    assert finds(model, given, exact * (1 + np.array([0.0, 4e-6, 0.0])))


def test_an_index_out_of_range_is_refused() -> None:
    model = "(float[3] x, int64[1] i) => (float[1] y) { y = GatherElements(x, i) }"
    assert not finds(model, {"x": [1.0, 2.0, 3.0], "i": [-3]}, [1.0])
    with pytest.raises(IndexError, match="out of range: the axis has 3 elements"):
        finds(model, {"x": [1.0, 2.0, 3.0], "i": [3]}, [1.0])


class TestBeyondTheRangeOfTheProgram:
    """What is a number in the shadow may be an infinity in the program."""

    def test_an_infinity_that_is_interpolated(self) -> None:
        model = """(float[1,1,2] x, float[1] w, int64[3] s) => (float[1,1,1] y) {
            p = Mul(x, w) a = Asinh(p) y = Resize<mode="linear">(a, "", "", s) }"""
        given = {"x": [[[0.0, LARGEST]]], "w": [2.0], "s": [1, 1, 1]}
        assert not finds(model, given, [[[NAN]]])
        assert finds(model, given | {"x": [[[0.0, 1.0]]]}, [[[NAN]]])

    def test_two_overflows_that_meet(self) -> None:
        model = "(float[1,2,1,1] x, float[1,2,1,1] w) => (float[1,1,1,1] y) { v = Conv(x, w) y = Atan(v) }"
        given = {"x": np.full((1, 2, 1, 1), LARGEST), "w": np.array([1.2, -1.4]).reshape(1, 2, 1, 1)}
        assert not finds(model, given, [[[[NAN]]]])
        assert finds(model, given | {"x": np.ones((1, 2, 1, 1))}, [[[[NAN]]]])

    def test_a_small_number_that_rounding_takes_to_zero(self) -> None:
        quotient = "(float[1] x) => (float[1] y) { v = Sigmoid(x) y = Div(x, v) }"
        truth = "(float[1] x) => (bool[1] y) { v = Sigmoid(x) y = Cast<to=9>(v) }"
        assert not finds(quotient, {"x": [-46.0]}, [-INF])
        assert not finds(truth, {"x": [-40.0]}, [False])
        assert finds(quotient, {"x": [-4.0]}, [-INF])
        assert finds(truth, {"x": [-4.0]}, [False])

    def test_the_largest_without_nan(self) -> None:
        model = "(float[2,3] x, int64[1] a) => (float[1,3] y) { v = ReduceMax(x, a) y = Softmax(v) }"
        given = {"x": [[0.0, NAN, LARGEST], [0.0, 1.0, 0.0]], "a": [0]}
        assert not finds(model, given, [[0.0, 0.0, 1.0]])


def test_sums_of_places_that_may_be_others() -> None:
    """Of two places that are added up, one may change and the other not."""
    model = "(float[2,64,2] x, int64 a) => (int64[1,64,2] y) { i = ArgMin<axis=0>(x) y = CumSum(i, a) }"
    x = np.ones((2, 64, 2))
    x[1] = NAN
    assert not any(finds(model, {"x": x, "a": np.int64(2)}, np.full((1, 64, 2), sums)) for sums in ([0, 0], [1, 1]))
    assert finds(model, {"x": x[:1].repeat(2, 0), "a": np.int64(2)}, np.ones((1, 64, 2)))


@pytest.mark.parametrize("got", [[1.0, 0.0], [0.0, 0.0]])
def test_the_largest_of_numbers_and_nan(got: list[float]) -> None:
    model = "(float[2] x) => (float[2] y) { y = Hardmax(x) }"
    assert not finds(model, {"x": [NAN, 2.0]}, got)
    assert finds(model, {"x": [1.0, 2.0]}, got)


def test_how_often_nan_occurs() -> None:
    model = "(float[2] x) => (int64[2] c) { u, i, j, c = Unique(x) }"
    assert not finds(model, {"x": [NAN, 2.0]}, [1, 0])
    assert finds(model, {"x": [1.0, 2.0]}, [1, 0])


@pytest.mark.parametrize("operator", ["Celu", "HardSigmoid"])
def test_what_is_defined_by_a_maximum_may_lose_a_nan(operator: str) -> None:
    model = f"(float[2] x) => (float[2] y) {{ y = {operator}(x) }}"
    assert not finds(model, {"x": (NAN, 0.0)}, [0.0, {"Celu": 0.0, "HardSigmoid": 0.5}[operator]])
    assert finds(model, {"x": (NAN, 0.0)}, [0.0, 1.0])


def test_a_neighbour_of_weight_zero() -> None:
    """In a deformed convolution too."""
    model = """(float[1,1,2,2] x, float[1,1,1,1] w, float[1,2,2,2] o) => (float[1,1,2,2] y) {
        y = DeformConv<kernel_shape = [1, 1]>(x, w, o) }"""
    given = {"x": [[[[1.0, INF], [2.0, 3.0]]]], "w": [[[[2.0]]]], "o": np.zeros((1, 2, 2, 2))}
    assert not finds(model, given, [[[[NAN, INF], [4.0, 6.0]]]])
    assert finds(model, {**given, "x": [[[[1.0, 5.0], [2.0, 3.0]]]]}, [[[[NAN, 10.0], [4.0, 6.0]]]])


class TestSign:
    """The standard speaks of numbers only."""

    sign = "(float[3] x) => (float[3] y) { y = Sign(x) }"

    @pytest.mark.parametrize("got", [0.0, 1.0, NAN])
    def test_of_nan(self, got: float) -> None:
        assert not finds(self.sign, {"x": (NAN, 2.0, -2.0)}, [got, 1.0, -1.0])

    def test_of_numbers(self) -> None:
        assert finds(self.sign, {"x": (NAN, 2.0, -2.0)}, [0.0, 1.0, 1.0])


class TestRegions:
    """RoiAlign has no rule. How many points it takes is a step of the size of a region: whole numbers stand on it."""

    model = """(float[1,1,8,8] x, float[1,4] rois, int64[1] batch) => (float[1,1,2,2] y) {
        y = RoiAlign <output_height = 2, output_width = 2> (x, rois, batch)
    }"""

    @pytest.mark.parametrize("corners", [(1.0, 1.0, 5.0, 5.0), (1.3, 1.2, 5.1, 5.4)])
    def test_another_value_is_found(self, corners: tuple[float, ...]) -> None:
        given = {"x": np.sin(np.arange(64.0)).reshape(1, 1, 8, 8), "rois": [corners], "batch": np.zeros(1, np.int64)}
        built = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> edge {self.model}')
        (right,) = _evaluated(built, {name: _array(value, doubles=False) for name, value in given.items()}).values()
        assert not finds(self.model, given, right + 1e-7)
        assert finds(self.model, given, right + 0.01)


def test_a_node_that_is_not_valid_has_no_exact_result() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> edge (float[1,1,2,2] x) => (float[1,1,2,2] y) {y = LRN<size = 0>(x)}'
    )
    with pytest.raises(NoExactReference, match="LRN does not run"):
        OnnxShadow(model, {"x": np.ones((1, 1, 2, 2), np.float32)}).reference()


class TestOrderOfOpenElements:
    """Powers that do not fit their type may be any integers: so they may come in any order."""

    places = (
        "(int32[3] x, int32[3] e) => (int64[3] y)"
        " { p = Pow(x, e) k = Constant<value_ints=[3]>() v, y = TopK<largest=0>(p, k) }"
    )
    large = {"x": np.array([-1659775163] * 3, np.int32), "e": np.array([2, 4, 5], np.int32)}
    small = {"x": np.array([3, 2, 1], np.int32), "e": np.array([1, 1, 1], np.int32)}

    @pytest.mark.parametrize("got", list(permutations(range(3))))
    def test_any_order(self, got: tuple[int, ...]) -> None:
        assert not finds(self.places, self.large, got)
        assert finds(self.places, self.small, got) == (got != (2, 1, 0))

    @pytest.mark.parametrize(("dtype", "code"), [("int8", 3), ("uint8", 2), ("int64", 7), ("uint64", 13)])
    def test_in_every_type(self, dtype: str, code: int) -> None:
        model = (
            f"(float[300,3] x) => (int64[300,3] y)"
            f" {{ p = Cast<to={code}>(x) k = Constant<value_ints=[3]>() v, y = TopK<largest=0>(p, k) }}"
        )
        assert not finds(model, {"x": np.tile([3e30, -2e30, 7e25], (300, 1))}, [[2, 1, 0]] * 300)
        assert finds(model, {"x": np.tile([3.0, 1.0, 2.0], (300, 1))}, [[2, 1, 0]] * 300)

    @pytest.mark.parametrize("got", [True, False])
    @pytest.mark.parametrize("compared", ["Less", "Greater", "Equal"])
    def test_two_that_are_compared(self, compared: str, got: bool) -> None:
        model = (
            f"(float[1] a, float[1] b) => (bool[1] y) {{ c = Cast<to=6>(a) d = Cast<to=6>(b) y = {compared}(c, d) }}"
        )
        assert not finds(model, {"a": [5e10], "b": [3e10]}, [got])


class TestSignOfAnOverflow:
    """A result that is too large has a sign. Only where partial results overflow may it be another one."""

    @pytest.mark.parametrize("x", [-1e-45, 1e-45, 1e-40])
    def test_the_reciprocal_of_a_subnormal_number(self, x: float) -> None:
        model = "(float[1] x) => (float[1] y) { y = Reciprocal(x) }"
        assert not finds(model, {"x": [x]}, [np.copysign(INF, x)])
        assert finds(model, {"x": [x]}, [np.copysign(INF, -x)])

    @pytest.mark.parametrize("got", [INF, -INF, NAN])
    def test_terms_of_both_signs(self, got: float) -> None:
        model = "(float[1,4] x, float[4,1] w) => (float[1,1] y) { y = MatMul(x, w) }"
        given = {"x": [[2.0, 1.0, 1.0, 1.0]], "w": [[0.6 * LARGEST], [-LARGEST], [-LARGEST], [-LARGEST]]}
        assert not finds(model, given, [[got]])
        model = "(float[4] x) => (float[1] y) { y = ReduceSum(x) }"
        assert not finds(model, {"x": [LARGEST, LARGEST * 0.5, -LARGEST, -LARGEST]}, [got])


def test_one_subnormal_number_taken_for_zero_is_no_drift() -> None:
    model = "(float[1,8] x, float l) => (float[1,8] y) { y = Clip(x, l) }"
    row = np.array([[NAN, 2.5, 1e-45, 0.25, 0.5137962, -0.61582977, -0.04921016, 0.34231344]], np.float32)
    assert not finds(model, {"x": row, "l": -1.5}, row)
    flushed = row.copy()
    flushed[0, 2] = 0.0
    assert not finds(model, {"x": row, "l": -1.5}, flushed)
