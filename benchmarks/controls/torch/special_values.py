"""NaN, infinities, signed zero and subnormals through ordinary operators."""

import torch
import torch.nn.functional as F
from torch import nn

INF = float("inf")
NAN = float("nan")
EDGE = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-40, -1e-40, 3e38]


def _edge(dtype=torch.float32):
    return torch.tensor(EDGE, dtype=dtype)


def common_activations_at_the_edges():
    def f(x):
        return F.relu(x), torch.sigmoid(x), torch.tanh(x), F.silu(x), F.gelu(x), F.softplus(x), F.elu(x)

    return f, (_edge(),)


def piecewise_activations_at_the_edges():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.acts = nn.ModuleList(
                [
                    nn.Hardtanh(),
                    nn.Hardswish(),
                    nn.Hardsigmoid(),
                    nn.LeakyReLU(0.1),
                    nn.ReLU6(),
                    nn.Softshrink(0.5),
                ]
            )

        def forward(self, x):
            return torch.stack([a(x) for a in self.acts])

    return Stack().eval(), (_edge(),)


def minimum_and_maximum_propagate_nan():
    def f(x, y):
        return torch.maximum(x, y), torch.minimum(x, y), torch.fmax(x, y), torch.fmin(x, y)

    return f, (torch.tensor([1.0, NAN, 3.0, NAN, INF]), torch.tensor([2.0, 2.0, NAN, NAN, NAN]))


def nan_in_reductions():
    def f(x):
        return x.sum(1), x.max(), x.amin(1), x.mean(0), torch.nansum(x, 1), torch.nanmean(x, 1), x.argmax(1)

    return f, (torch.tensor([[1.0, NAN, 3.0], [4.0, 5.0, 6.0]]),)


def comparisons_with_nan_and_signed_zero():
    def f(x, y):
        return x < y, x <= y, x == y, x != y, torch.isclose(x, y), torch.isclose(x, y, equal_nan=True)

    x = torch.tensor([0.0, NAN, NAN, INF, -INF, 1.0])
    y = torch.tensor([-0.0, NAN, 1.0, INF, INF, 1.0 + 1e-9])
    return f, (x, y)


def sign_bit_of_zero():
    def f(x):
        return (
            torch.signbit(x),
            torch.sign(x),
            1 / x,
            torch.copysign(torch.ones_like(x), x),
            torch.atan2(x, -torch.ones_like(x)),
        )

    return f, (torch.tensor([0.0, -0.0]),)


def log_family_at_zero_and_below():
    def f(x):
        return torch.log(x), torch.log1p(x), torch.log2(x), torch.xlogy(torch.zeros_like(x), x), torch.special.entr(x)

    return f, (torch.tensor([0.0, -0.0, -1.0, 1e-30, 1.0, INF], dtype=torch.float64),)


def pow_of_special_bases_and_exponents():
    def f(b, e):
        return torch.pow(b, e), b**0, b**2, b**-1.0

    b = torch.tensor([0.0, -0.0, 1.0, NAN, INF, -INF, -8.0, 2.0])
    e = torch.tensor([0.0, -1.0, NAN, 0.0, -1.0, 3.0, 1 / 3, -INF])
    return f, (b, e)


def nan_to_num_and_clamp():
    def f(x):
        return (
            torch.nan_to_num(x),
            torch.nan_to_num(x, nan=-1.0, posinf=9.0, neginf=-9.0),
            x.clamp(-2, 2),
            x.clamp(min=0),
        )

    return f, (_edge(),)


def remainder_and_fmod_with_infinities():
    def f(x, y):
        return torch.remainder(x, y), torch.fmod(x, y)

    return f, (torch.tensor([5.0, -5.0, INF, 5.5, -0.0, 3.0]), torch.tensor([3.0, 3.0, 2.0, -2.0, 2.0, 0.0]))


def gamma_and_error_functions():
    def f(x):
        return torch.lgamma(x), torch.erf(x), torch.erfc(x), torch.digamma(x), torch.special.erfcx(x)

    return f, (torch.tensor([0.5, 1.0, 2.0, 5.5, 10.0, -0.5, INF], dtype=torch.float64),)


def rounding_functions_on_halves_and_nonfinite():
    def f(x):
        return x.round(), x.floor(), x.ceil(), x.trunc(), x.frac()

    return f, (torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 8388609.0]),)


def double_subnormals_keep_their_bits():
    def f(x):
        return x * 2, x + x, x > 0, x.sqrt(), x.abs().sum()

    return f, (torch.tensor([5e-324, 1e-310, -1e-320, 2.2250738585072014e-308], dtype=torch.float64),)


def sort_places_nan_last():
    def f(x):
        s = torch.sort(x, stable=True)
        return s.values, s.indices, torch.sort(x, descending=True, stable=True).values

    return f, (torch.tensor([3.0, NAN, -INF, 1.0, INF, 2.0]),)


def masked_softmax_with_infinite_bias():
    def f(x, keep):
        bias = torch.zeros_like(x).masked_fill(~keep, -INF)
        return torch.softmax(x + bias, -1), torch.log_softmax(x + bias, -1), torch.logsumexp(x + bias, -1)

    keep = torch.tensor([[True, True, False], [True, False, False], [False, False, True]])
    return f, (torch.tensor([[1.0, 2.0, 3.0], [0.5, 9.0, 9.0], [-1.0, 4.0, 0.0]]), keep)
