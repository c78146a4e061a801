"""A linear function on a (1, 3, 4) input whose bias has the shape (1, 4), with shape padding on.

On CUDA, TorchInductor padded the matrices to sizes the hardware likes and broadcast the two-dimensional bias wrongly:
"the expanded size of the tensor must match the existing size". Padding is done for CUDA only: on a CPU the program
runs, but takes another path. One of the cases published with WhiteFox; fixed in torch 2.13.
Compiler: TorchInductor (`shape_padding=true:device=cuda`). Reported: https://github.com/pytorch/pytorch/issues/99649
"""

import torch
from torch import nn


class BroadcastBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.bias = nn.Parameter(torch.randn(1, 4))

    def forward(self, x):
        return nn.functional.linear(x, self.weight, self.bias)


def program():
    return BroadcastBias().eval(), (torch.randn(1, 3, 4),)
