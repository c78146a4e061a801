"""A classifier of two hidden layers that ends in a softmax. Sound: no compiler may differ on it beyond rounding."""

import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10), nn.Softmax(dim=-1)
        )

    def forward(self, x):
        return self.layers(x)


def program(dtype):
    return Mlp().to(dtype).eval(), (torch.randn(8, 32).to(dtype),)


def float32():
    return program(torch.float32)


def float64():
    return program(torch.float64)


def float16():
    return program(torch.float16)


def bfloat16():
    return program(torch.bfloat16)
