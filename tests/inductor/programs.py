"""Programs for the tests of the lab; files are written where a test wants them."""

from __future__ import annotations

TRAINED = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 12).reshape(3, 4))

    def forward(self, x):
        y = torch.relu(x @ self.weight)
        return y * 2 + torch.sin(y)


def program():
    return Net(), (torch.ones(2, 3),)
"""

OTHER = """\
import torch


def program():
    return (lambda x: torch.cosh(x)), (torch.ones(5),)
"""

BREAKS = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        x = x + 1
        print("shape", x.shape)
        x = x * 2
        if x.sum() > 0:
            x = x - 1
        count = int(x.max().item())
        return torch.sin(x + count)


def program():
    return Net(), (torch.ones(4),)
"""

SIZES = """\
import torch


def scaled(x, bias):
    return torch.relu(x * 2) + bias


def program():
    return scaled, (torch.ones(2, 3), torch.ones(3))
"""
