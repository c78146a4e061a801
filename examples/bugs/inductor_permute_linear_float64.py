"""A float64 linear layer between two transpositions, in eval mode without gradients.

TorchInductor fused the transposition into the layer and handed its float64 weights to oneDNN, which takes only smaller
floats: "dense_to_mkldnn expects float or bfloat16 tensor input". One of the cases published with WhiteFox; fixed in
torch 2.13.
Compiler: TorchInductor (permute-linear fusion). Reported: https://github.com/pytorch/pytorch/issues/98979
"""

import torch
from torch import nn


class TransposedLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2, dtype=torch.float64)

    def forward(self, columns):
        return self.layer(columns.permute(1, 0)).permute(1, 0)


def program():
    return TransposedLinear().eval(), (torch.randn(3, 4, dtype=torch.float64),)
