"""The order of the axes comes out of a tensor: `permute(*order)`.

Eager turns the elements into numbers. `torch.compile` traced them as tensors and failed with TorchRuntimeError. One of
the cases published with WhiteFox; fixed in torch 2.13.
Compiler: TorchDynamo, in front of every torch.compile backend. Reported: https://github.com/pytorch/pytorch/issues/98973
"""

import torch


def swap_last_axes(batch):
    order = torch.tensor([0, 2, 1])
    return batch.permute(*order)


def program():
    return swap_last_axes, (torch.randn(2, 3, 4),)
