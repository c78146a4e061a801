"""A float16 input meets a float32 layer with one input and one output.

Eager refuses to mix the dtypes. TorchInductor takes such a small matrix product apart into a multiplication and a sum,
which promote instead of complaining: it returns a float32 answer for a program that is an error.
Compiler: TorchInductor (a decomposition on the CPU). Reported: https://github.com/pytorch/pytorch/issues/141865
"""

import torch
from torch import nn


def program():
    return nn.Linear(1, 1).eval(), (torch.tensor([[0.25]], dtype=torch.float16),)
