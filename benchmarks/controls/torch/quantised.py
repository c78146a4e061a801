"""Quantised arithmetic: fake quantisation, quantised tensors and int8 by hand."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver
from torch.ao.quantization.observer import MinMaxObserver


def _x(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def quantize_per_tensor_round_trip():
    def f(x):
        q = torch.quantize_per_tensor(x, scale=0.1, zero_point=10, dtype=torch.quint8)
        return q.int_repr(), q.dequantize()

    return f, (torch.tensor([-1.0, 0.0, 1.0, 2.04, 30.0, -7.0]),)


def quantize_per_channel_round_trip():
    def f(x, scales, zeros):
        q = torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8)
        return q.int_repr(), q.dequantize()

    return f, (_x(1, 3, 5), torch.tensor([0.1, 0.02, 0.5]), torch.tensor([0, 3, -5]))


def fake_quantize_per_tensor_affine_values():
    return (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.25, 0, -128, 127)), (torch.linspace(-40, 40, 31),)


def fake_quantize_rounds_halves_to_even():
    x = torch.tensor([0.125, 0.375, 0.625, -0.125, -0.375, 31.875, -32.0])
    return (lambda t: torch.fake_quantize_per_tensor_affine(t, 0.25, 0, -128, 127)), (x,)


def fake_quantize_per_channel_weights_in_linear():
    class QLinear(nn.Module):
        def __init__(self, n_in, n_out):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(n_out, n_in) * 0.3)
            self.bias = nn.Parameter(torch.zeros(n_out))

        def forward(self, x):
            scale = self.weight.detach().abs().amax(1) / 127
            zero = torch.zeros(scale.shape, dtype=torch.int32)
            w = torch.fake_quantize_per_channel_affine(self.weight, scale, zero, 0, -127, 127)
            return F.linear(x, w, self.bias)

    torch.manual_seed(2)
    return nn.Sequential(QLinear(8, 16), nn.ReLU(), QLinear(16, 4)).eval(), (_x(2, 5, 8),)


def fake_quantize_module_with_fixed_scale():
    fq = FakeQuantize(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255)
    fq(torch.linspace(-1, 3, 9))
    fq.disable_observer()
    return fq.eval(), (torch.linspace(-2, 4, 25),)


def min_max_observer_computes_qparams():
    class Calibrate(nn.Module):
        def __init__(self):
            super().__init__()
            self.obs = MinMaxObserver(dtype=torch.quint8)

        def forward(self, x):
            self.obs.reset_min_max_vals()
            self.obs(x)
            scale, zero = self.obs.calculate_qparams()
            return scale, zero

    return Calibrate().eval(), (torch.tensor([-1.5, 0.0, 2.25, 1.0]),)


def int8_matmul_accumulated_in_int32():
    def f(a, b):
        acc = a.to(torch.int32) @ b.to(torch.int32)
        return acc, acc.float() * 0.01 * 0.02

    g = torch.Generator().manual_seed(4)
    a = torch.randint(-128, 128, (6, 40), dtype=torch.int8, generator=g)
    b = torch.randint(-128, 128, (40, 5), dtype=torch.int8, generator=g)
    return f, (a, b)


def dynamic_symmetric_quantised_linear_by_hand():
    def quantise(x, dim):
        scale = x.abs().amax(dim=dim, keepdim=True).clamp(min=1e-8) / 127.0
        return torch.clamp(torch.round(x / scale), -127, 127).to(torch.int8), scale

    def f(x, w):
        xq, xs = quantise(x, -1)
        wq, ws = quantise(w, -1)
        acc = xq.int() @ wq.int().t()
        return acc.float() * xs * ws.t()

    return f, (_x(5, 7, 16), _x(6, 9, 16))


def asymmetric_uint8_with_zero_point_by_hand():
    def f(x):
        lo, hi = torch.aminmax(x)
        lo, hi = lo.clamp(max=0), hi.clamp(min=0)
        scale = (hi - lo) / 255
        zp = torch.clamp(torch.round(-lo / scale), 0, 255)
        q = torch.clamp(torch.round(x / scale) + zp, 0, 255).to(torch.uint8)
        return q, (q.float() - zp) * scale

    return f, (_x(7, 4, 12) * 3 + 1,)


def int4_packing_into_bytes():
    def f(q):
        low, high = q[..., ::2], q[..., 1::2]
        packed = (low & 0xF) | ((high & 0xF) << 4)
        lo = (packed & 0xF).to(torch.int8)
        hi = (packed >> 4).to(torch.int8)
        unpacked = torch.stack([lo, hi], -1).flatten(-2)
        return packed, torch.where(unpacked > 7, unpacked - 16, unpacked)

    g = torch.Generator().manual_seed(8)
    return f, (torch.randint(0, 16, (3, 10), dtype=torch.uint8, generator=g),)


def groupwise_weight_only_quantised_linear():
    class GroupLinear(nn.Module):
        def __init__(self, n_in, n_out, group):
            super().__init__()
            w = torch.randn(n_out, n_in)
            blocks = w.view(n_out, n_in // group, group)
            scale = blocks.abs().amax(-1, keepdim=True) / 7
            self.register_buffer("q", torch.round(blocks / scale).clamp(-8, 7).to(torch.int8))
            self.register_buffer("scale", scale)

        def forward(self, x):
            w = (self.q.to(x.dtype) * self.scale).flatten(1)
            return F.linear(x, w)

    torch.manual_seed(9)
    return GroupLinear(32, 6, 8).eval(), (_x(9, 4, 32),)


def straight_through_estimator_rounding():
    def f(x):
        x = x.detach().requires_grad_()
        y = x + (torch.round(x * 4) / 4 - x).detach()
        (g,) = torch.autograd.grad((y**2).sum(), x)
        return y.detach(), g

    return f, (torch.linspace(-2, 2, 17) + 0.03,)


def fake_quantize_gradient_is_masked_outside_range():
    def f(x):
        x = x.detach().requires_grad_()
        y = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 15)
        (g,) = torch.autograd.grad(y.sum(), x)
        return y.detach(), g

    return f, (torch.tensor([-1.0, -0.2, 0.02, 0.71, 1.42, 1.9, 5.0]),)


def quantised_relu_and_max_pool():
    def f(x):
        q = torch.quantize_per_tensor(x, 0.05, 64, torch.quint8)
        q = F.max_pool2d(torch.relu(q), 2)
        return q.dequantize()

    return f, (_x(10, 1, 2, 6, 6),)
