"""Layer normalisation before and after a feed-forward block: where means and variances need care."""

import torch
from torch import nn


class NormedBlock(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
        self.after = nn.LayerNorm(width)

    def forward(self, x):
        return self.after(x + self.inner(self.before(x)))


def program(dtype):
    # A mean well away from zero: a variance taken as E[x^2] - E[x]^2 would lose digits here.
    return NormedBlock().to(dtype).eval(), ((torch.randn(6, 48) + 4.0).to(dtype),)


def float32():
    return program(torch.float32)


def float64():
    return program(torch.float64)


def float16():
    return program(torch.float16)


def bfloat16():
    return program(torch.bfloat16)
