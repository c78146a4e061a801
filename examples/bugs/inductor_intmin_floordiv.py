"""The smallest int32 divided by -1, which has no int32 answer.

Eager wraps around. Older TorchInductor emitted a bare C++ division, which the processor answers with SIGFPE: the whole
process dies. Fixed in torch 2.13.
Compiler: TorchInductor (C++ code generation). Reported: https://github.com/pytorch/pytorch/issues/184406
"""

import torch


def divide(numerator, denominator):
    return numerator // denominator


def program():
    smallest = torch.iinfo(torch.int32).min
    return divide, (torch.tensor([smallest, 12], dtype=torch.int32), torch.tensor([-1, -5], dtype=torch.int32))
