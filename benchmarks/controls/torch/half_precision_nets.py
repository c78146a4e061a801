"""float16 and bfloat16 networks and sums, including values near overflow."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def _x(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def bfloat16_mlp_classifier():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 5))
    return net.to(torch.bfloat16).eval(), (_x(1, 8, 20).bfloat16(),)


def float16_conv_net():
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 4),
    )
    return net.half().eval(), (_x(2, 2, 3, 16, 16).half(),)


def float16_products_that_overflow_to_infinity():
    x = torch.tensor([60000.0, 65504.0, 300.0, 255.9, -1000.0], dtype=torch.float16)
    return (lambda a: (a * a, a + a, a * 0.5)), (x,)


def mean_of_large_float16_values():
    x = torch.full((64, 32), 40000.0, dtype=torch.float16)
    return (lambda a: (a.mean(), a.mean(dim=0), a.float().sum(1))), (x,)


def long_bfloat16_sum():
    x = torch.ones(4096, dtype=torch.bfloat16)
    return (lambda a: (a.sum(), a.sum(dtype=torch.float32), a.cumsum(0)[-1])), (x,)


def softmax_in_float16_upcast_for_safety():
    def f(scores):
        return F.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)

    return f, (_x(3, 4, 4, 16).half() * 100,)


def rms_norm_in_bfloat16_like_llama():
    class RMSNorm(nn.Module):
        def __init__(self, dim, eps=1e-6):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(dim))
            self.eps = eps

        def forward(self, x):
            dtype = x.dtype
            x = x.float()
            x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
            return self.weight * x.to(dtype)

    return RMSNorm(64).bfloat16().eval(), (_x(4, 2, 7, 64).bfloat16() * 50,)


def autocast_linear_stack_on_cpu():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(16, 24)
            self.b = nn.Linear(24, 8)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                h = torch.relu(self.a(x))
                y = self.b(h)
            return y.float(), y.dtype == torch.bfloat16

    torch.manual_seed(5)
    return Net().eval(), (_x(5, 4, 16),)


def float16_subnormals_survive_scaling():
    x = torch.tensor([6e-8, 1e-7, 6e-5, 6.1e-5, 1e-3], dtype=torch.float16)
    return (lambda a: (a * 2, a / 2, a * 1024, a.float())), (x,)


def loss_scaling_by_hand():
    def f(w, x, y):
        scale = 1024.0
        w = w.detach().requires_grad_()
        pred = (x @ w.half()).float()
        loss = F.mse_loss(pred, y)
        (grad,) = torch.autograd.grad(loss * scale, w)
        return loss.detach(), grad / scale, torch.isfinite(grad).all()

    return f, (_x(6, 8, 2) * 0.1, _x(7, 16, 8).half(), _x(8, 16, 2))


def half_attention_scores_with_scaling_first():
    def attend(q, k, v):
        q = q / math.sqrt(q.shape[-1])
        w = torch.softmax((q @ k.transpose(-1, -2)).float(), -1)
        return w.to(v.dtype) @ v

    return attend, (_x(9, 2, 3, 5, 8).half(), _x(10, 2, 3, 6, 8).half(), _x(11, 2, 3, 6, 8).half())


def bfloat16_gated_mlp():
    class SwiGLU(nn.Module):
        def __init__(self, dim, hidden):
            super().__init__()
            self.gate = nn.Linear(dim, hidden, bias=False)
            self.up = nn.Linear(dim, hidden, bias=False)
            self.down = nn.Linear(hidden, dim, bias=False)

        def forward(self, x):
            return x + self.down(F.silu(self.gate(x)) * self.up(x))

    torch.manual_seed(12)
    return nn.Sequential(SwiGLU(24, 48), SwiGLU(24, 48)).bfloat16().eval(), (_x(12, 3, 5, 24).bfloat16(),)


def rounding_to_half_and_back():
    def f(x):
        return x.half().float() - x, x.bfloat16().float() - x, x.half().bfloat16().float()

    x = torch.tensor([1.0009765625 / 2, 2049.0, 2051.0, 0.1, 1 / 3, 65519.0, 65520.0, -1e-9])
    return f, (x,)


def layer_norm_of_half_inputs_with_big_offset():
    torch.manual_seed(14)
    return nn.LayerNorm(32).half().eval(), ((_x(13, 4, 32) + 1000).half(),)


def kahan_sum_in_bfloat16():
    def kahan(x):
        total = torch.zeros((), dtype=x.dtype)
        comp = torch.zeros((), dtype=x.dtype)
        for v in x.unbind():
            y = v - comp
            t = total + y
            comp = (t - total) - y
            total = t
        return total, x.float().sum()

    return kahan, ((_x(14, 60).abs()).bfloat16(),)
