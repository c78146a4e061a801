"""A running sum over a constant uint8 tensor must wrap at 256 and stay uint8.

TorchInductor knows that the running sum of a constant is an arithmetic sequence and writes it as `arange`, but forgets
the dtype that was asked for: the result is int64 and does not wrap.
Compiler: TorchInductor (a graph rewrite). Reported: https://github.com/pytorch/pytorch/issues/189518
"""

import torch


def running_total():
    steps = torch.full((8,), 50, dtype=torch.uint8)
    return torch.cumsum(steps, dim=0, dtype=torch.uint8)


def program():
    return running_total, ()
