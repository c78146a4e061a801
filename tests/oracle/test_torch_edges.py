"""At the edges of the range: what may come out of a torch program there, and what still may not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
import torch

from driftline.core.tensors import Array, Arrays
from driftline.oracle.rule import ShadowAnswer, judge_outputs
from driftline.oracle.shadow.player import Player
from driftline.oracle.shadow.torch.shadow import TorchShadow, record

LARGEST = float(np.finfo(np.float32).max)
INF, NAN = np.inf, np.nan
Program = Callable[[torch.Tensor], torch.Tensor]


def finds(program: Program, x: object, got: object) -> bool:
    """Is this result of the program on x, in float32, a finding?"""
    given = torch.tensor(x, dtype=torch.float32)
    player = Player(TorchShadow(record(lambda: {"y": program(given)})))
    native = {"y": program(given).numpy()}
    output = np.asarray(got).astype(native["y"].dtype).reshape(native["y"].shape)

    def ask(runs: int, outputs: Arrays | None) -> ShadowAnswer:
        return player.ask(runs, outputs)

    return judge_outputs({"y": output}, native, player.reference(), ask).finding is not None


class TestPartialResults:
    """The order of the terms decides whether a partial result overflows."""

    large = (0.5 * LARGEST, 0.7 * LARGEST, -0.5 * LARGEST, -0.7 * LARGEST)

    @pytest.mark.parametrize("got", [0.0, INF, -INF, NAN])
    @pytest.mark.parametrize("program", [torch.mean, torch.sum, lambda x: x @ torch.ones(4)])
    def test_a_sum_that_may_overflow(self, program: Program, got: float) -> None:
        assert not finds(program, self.large, got)

    @pytest.mark.parametrize("got", [1.0, INF, 0.0])
    def test_a_product_whose_factors_are_far_apart(self, got: float) -> None:
        assert not finds(torch.prod, (1e30, 1e30, 1e-30, 1e-30), got)

    @pytest.mark.parametrize("got", [INF, NAN])
    @pytest.mark.parametrize("program", [torch.mean, torch.sum, torch.prod, lambda x: x @ torch.ones(4)])
    def test_what_cannot_overflow_must_not(self, program: Program, got: float) -> None:
        assert finds(program, (1e5, 2e5, 3e5, 4e5), got)


@pytest.mark.parametrize("got", [NAN, -INF, -20.0])
def test_the_logarithm_of_what_may_be_nothing(got: float) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.log(x - torch.tanh(x))

    assert not finds(program, [1e-14], [got])
    assert finds(program, [-1.0], [0.0])


class TestChoicesThatAreNotReturned:
    """What is computed from a choice among nearly equal elements."""

    @staticmethod
    def program(x: torch.Tensor) -> torch.Tensor:
        return -torch.argmin(torch.erf(x))

    def test_any_of_them(self) -> None:
        near = [0.7 * (1 + 1e-7 * place) for place in range(5)]
        assert not any(finds(self.program, near, -place) for place in range(5))

    def test_none_of_the_others(self) -> None:
        assert finds(self.program, [0.7, 0.3, 0.9, 0.5, 0.6], -3)


def test_what_makes_floats_of_integers_is_played_in_doubles() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.int() / 3 @ torch.full((3,), 7.0)

    given = torch.tensor([1.0, 2.0, 4.0])
    exact = TorchShadow(record(lambda: {"y": program(given)})).reference()["y"]
    assert abs(exact - 49 / 3) < 1e-13


class TestOperationsWithoutARule:
    """They may be off by as much as they make of the rounding of their arguments, and no more."""

    @staticmethod
    def distance(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._cdist_forward(x[None], torch.full((1, 3), 1000.0), 2.0, 2)  # type: ignore[no-any-return]

    def test_a_difference_of_like_numbers(self) -> None:
        x = (1000.01, 1000.0, 1000.0)
        shadow = TorchShadow(record(lambda: {"y": self.distance(torch.tensor(x))}))
        shadow.reference()
        assert shadow.unruled == {"_cdist_forward"}
        right = float(self.distance(torch.tensor(x)))
        assert not finds(self.distance, x, [[right + 2e-4]])
        assert finds(self.distance, x, [[right + 2e-2]])

    def test_statistics_of_nearly_equal_numbers(self) -> None:
        def program(x: torch.Tensor) -> torch.Tensor:
            mean, variance = torch.zeros(1), torch.ones(1)
            scale = torch.full((1,), 1000.0)
            normed = torch.ops.aten._batch_norm_with_update(x[None, None], scale, mean, mean, variance, 0.5, 0.6)
            return normed[0]  # type: ignore[no-any-return]

        x = torch.full((8,), 3.2456009)
        moved = program(x) + 1000 * 2.0**-23
        assert not finds(program, x.tolist(), moved.numpy())
        assert finds(program, x.tolist(), moved.numpy() + 0.01)


def test_sums_into_places_round_every_time() -> None:
    """In half precision each partial sum is stored in it."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.index_add(x[:1].half(), 0, torch.tensor([0, 0]), x[1:].half())

    x = (-1.3437, 0.6714, 0.6714)
    right = float(program(torch.tensor(x)))
    assert not finds(program, x, [right + 2.0**-11])
    y = (-1.3437, 0.6714, 0.7714)
    assert finds(program, y, [float(program(torch.tensor(y))) + 2.0**-6])


class TestPooling:
    """Which of several NaN is the maximum does not matter; where the maximum of numbers lies is."""

    window = ((1.0, NAN, 3.0, NAN), (2.0, 5.0, 4.0, 0.0))

    @staticmethod
    def places(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.adaptive_max_pool2d(x.reshape(2, 1, 2, 2), 1, return_indices=True)[1]

    def test_the_place_of_nan(self) -> None:
        assert not finds(self.places, self.window, [1, 1])
        assert not finds(self.places, self.window, [3, 1])
        assert finds(self.places, self.window, [3, 2])

    def test_a_single_nan_has_one_place(self) -> None:
        assert finds(self.places, ((1.0, NAN, 3.0, 2.0), (2.0, 5.0, 4.0, 0.0)), [3, 1])


def test_a_sample_infinitely_far_away() -> None:
    """Padding by the documentation, NaN in eager; one that lies inside is neither."""

    def program(grid: torch.Tensor) -> torch.Tensor:
        image = torch.arange(1.0, 5.0).reshape(1, 1, 2, 2)
        return torch.nn.functional.grid_sample(image, grid.reshape(1, 1, 2, 2), align_corners=True)

    assert not finds(program, [INF, INF, -1.0, -1.0], [0.0, 1.0])
    assert not finds(program, [INF, INF, -1.0, -1.0], [NAN, 1.0])
    assert finds(program, [INF, INF, -1.0, -1.0], [0.0, 0.0])


class TestUnderflow:
    """A function may give zero for a subnormal number, and zero times infinity is NaN; a product of ordinary size or a
    power that is no subnormal number may not."""

    @staticmethod
    def weighted(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, 0) * torch.tensor([1.0, INF])

    @pytest.mark.parametrize("got", [INF, NAN])
    def test_a_weight_that_may_be_nothing(self, got: float) -> None:
        assert not finds(self.weighted, (101.0, 0.0), (1.0, got))
        assert finds(self.weighted, (101.0, 0.0), (0.0, got))

    def test_a_weight_that_is_small_but_ordinary(self) -> None:
        assert finds(self.weighted, (80.0, 0.0), (1.0, NAN))

    def test_arithmetic_keeps_subnormal_numbers(self) -> None:
        assert finds(lambda x: 0.5 * x, (1e-38,), (0.0,))
        assert not finds(torch.exp, (-88.0,), (0.0,))
        assert finds(torch.exp, (-87.0,), (0.0,))


@pytest.mark.parametrize("got", [3.5, INF])
def test_a_factor_before_or_after_the_quotient(got: float) -> None:
    """What may overflow on the way, in doubles as well, where the shadow has no more room than the program."""

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.double() * (LARGEST * 2.0**896)
        return torch.addcdiv(torch.full_like(y, 1.5), y, y, value=2.0)

    assert not finds(program, [1.0], [got])
    assert finds(program, [2.0**-20], [INF])
    assert finds(program, [2.0**-20], [1.5])


class TestPadding:
    """The zeros of a padding times an infinite weight: NaN, or nothing. Inside there is no choice."""

    @staticmethod
    def convolved(x: torch.Tensor) -> torch.Tensor:
        weight = torch.tensor([INF, 1.0, 1.0]).reshape(1, 1, 3)
        return torch.nn.functional.conv1d(x.reshape(1, 1, 4), weight, padding=1)

    @pytest.mark.parametrize("got", [3.0, NAN])
    def test_an_infinite_weight(self, got: float) -> None:
        assert not finds(self.convolved, [1.0, 2.0, 3.0, 4.0], [got, INF, INF, INF])
        assert finds(self.convolved, [1.0, 2.0, 3.0, 4.0], [got, INF, INF, 4.0])


def test_a_transposed_convolution_of_infinities() -> None:
    """There are zeros between its elements, which some multiply."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv_transpose1d(x.reshape(1, 1, 2), torch.ones(1, 1, 2), stride=3)

    assert not finds(program, [INF, 1.0], [INF, INF, NAN, 1.0, 1.0])
    assert finds(program, [2.0, 1.0], [2.0, 2.0, NAN, 1.0, 1.0])


def test_weights_of_an_interpolation_are_rounded() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x.double().reshape(1, 1, 2), size=6, mode="linear")

    right = program(torch.tensor([0.0, 1.0])).flatten().tolist()
    assert right[0] == 0
    assert not finds(program, [0.0, 1.0], [4.4e-16, *right[1:]])
    assert finds(program, [0.0, 1.0], [4.4e-13, *right[1:]])


def test_what_overflows_in_the_program_itself() -> None:
    """It may be anything there, since float64 has room that the program has not. Beside it nothing changes."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * 1e30 - x * 1e29)

    assert not finds(program, [1e10, 1e-31], [-1.0, float(np.tanh(np.float32(0.09)))])
    assert finds(program, [1e10, 1e-31], [-1.0, 0.1])


class TestProductsOfBfloat16:
    """Processors flush their subnormal factors and sums; other numbers they do not lose."""

    @staticmethod
    def product(x: torch.Tensor) -> torch.Tensor:
        return (x.bfloat16().reshape(1, 2) @ torch.tensor([[1.5], [1.0]]).bfloat16()).float()

    @pytest.mark.parametrize("got", [0.0, 1.29e-38])
    def test_a_subnormal_factor(self, got: float) -> None:
        assert not finds(self.product, [8.6e-39, 0.0], [got])

    def test_an_ordinary_factor(self) -> None:
        assert finds(self.product, [8.6e-37, 0.0], [0.0])
        assert finds(self.product, [8.6e-39, 1.0], [1.5])


class TestGradientAtNan:
    """Eager's own gradient at NaN depends on how many elements there are; elsewhere there is but one."""

    functions = (
        torch.nn.functional.elu,
        torch.nn.functional.hardshrink,
        torch.nn.functional.hardswish,
        torch.nn.functional.hardtanh,
        torch.nn.functional.softshrink,
    )

    @staticmethod
    def gradient(function: Program, values: list[float], got: list[float]) -> bool:
        def program(x: torch.Tensor) -> torch.Tensor:
            x = x.detach().requires_grad_()
            function(x).sum().backward()
            assert x.grad is not None
            return x.grad

        return finds(program, values, got)

    @pytest.mark.parametrize("function", functions)
    @pytest.mark.parametrize("got", [0.0, 1.0, NAN])
    def test_any_piece(self, function: Program, got: float) -> None:
        slope = 0.0 if function is torch.nn.functional.hardtanh else 1.0
        assert not self.gradient(function, [NAN, 4.0], [got, slope])
        assert self.gradient(function, [NAN, 4.0], [got, 1.0 - slope])

    def test_near_where_the_slope_cancels(self) -> None:
        x = np.float32(-1.4999)
        slope = float(x / np.float32(3) + np.float32(0.5))
        assert not self.gradient(torch.nn.functional.hardswish, [float(x)], [slope])
        assert self.gradient(torch.nn.functional.hardswish, [float(x)], [slope + 3e-6])


class TestEqualElements:
    """The same rounding error on equal numbers is one error; the same one on different numbers is a drift."""

    @staticmethod
    def off(x: Array) -> Array:
        """The root, by three units in the last place, which alone is no finding."""
        return np.sqrt(x) * np.float32(1 + 3 * 2**-23)

    def test_one_error_seen_many_times(self) -> None:
        x = np.full(300, 0.7148, np.float32)
        assert not finds(torch.sqrt, x, self.off(x))

    def test_many_errors_of_one_sign(self) -> None:
        x = np.linspace(0.5, 1.4, 300, dtype=np.float32)
        assert not finds(torch.sqrt, x[:1], self.off(x[:1]))
        assert finds(torch.sqrt, x, self.off(x))


class TestOrderOfOpenElements:
    """What does not fit an integer may become any integer: so such elements may come in any order."""

    @staticmethod
    def places(x: torch.Tensor) -> torch.Tensor:
        return torch.sort(x.to(torch.int32)).indices

    @pytest.mark.parametrize("got", list(permutations(range(3))))
    def test_any_order(self, got: tuple[int, ...]) -> None:
        assert not finds(self.places, [3e10, -2e10, 7e12], got)
        assert finds(self.places, [3.0, 2.0, 1.0], got) == (got != (2, 1, 0))

    @pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int64])
    def test_in_every_type(self, dtype: torch.dtype) -> None:
        def places(x: torch.Tensor) -> torch.Tensor:
            return torch.sort(x.to(dtype), stable=True).indices

        assert not finds(places, np.tile([3e30, -2e30, 7e25], (300, 1)), [[2, 1, 0]] * 300)
        assert finds(places, np.tile([3.0, 1.0, 2.0], (300, 1)), [[2, 1, 0]] * 300)

    @pytest.mark.parametrize("got", [True, False])
    @pytest.mark.parametrize("compare", [torch.lt, torch.gt, torch.eq])
    def test_two_that_are_compared(self, compare: Callable[..., torch.Tensor], got: bool) -> None:
        assert not finds(lambda x: compare(x.to(torch.int32), (x * 2).to(torch.int32)), [5e10], [got])
        assert finds(lambda x: compare(x.to(torch.int32), (x * 2).to(torch.int32)), [5.0, 5.0], [True, False])


class TestTransforms:
    """Signals that are transformed side by side: a large one, or one with NaN, changes nothing for the others."""

    @staticmethod
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x, dim=0).real

    @pytest.mark.parametrize("neighbour", [1.0, LARGEST, NAN, INF])
    def test_a_cancelled_sum_may_leave_something(self, neighbour: float) -> None:
        x = np.array([[1.0, neighbour], [1.0, -1.0], [1.0, 2.0], [1.0, 0.5]])
        result = self.program(torch.tensor(x, dtype=torch.float32)).numpy().copy()
        result[1, 0] = 1e-7
        assert not finds(self.program, x, result)
        result[1, 0] = 1e-4
        assert finds(self.program, x, result)


class TestInterpolation:
    """Weights are computed once for each place along an axis: what is wrong with one shows in every image."""

    x = np.random.default_rng(0).normal(1000.0, 1.0, (32, 2, 1, 3)).astype(np.float32)

    @staticmethod
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, size=[5, 7], mode="bicubic", align_corners=False)

    def with_weights_off_by(self, roundings: float) -> Array:
        result = self.program(torch.from_numpy(self.x)).numpy()
        off = np.array([1.0, -0.5, 0.8, -1.0, 0.6], np.float32).reshape(5, 1)
        return np.asarray(result * (1 + roundings * np.finfo(np.float32).eps * off))

    def test_errors_in_weights_are_shared(self) -> None:
        assert not finds(self.program, self.x, self.with_weights_off_by(2.0))
        assert finds(self.program, self.x, self.with_weights_off_by(100.0))
