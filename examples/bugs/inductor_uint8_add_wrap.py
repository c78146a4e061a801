"""Adding uint8 numbers wraps at 256, also when the sum is widened afterwards.

In C++ the sum of two uint8 values is an int. Older TorchInductor widened that int and never wrapped it. Fixed in
torch 2.13.
Compiler: TorchInductor (C++ code generation). Reported: https://github.com/pytorch/pytorch/issues/105264
"""

import torch


def double_and_widen(pixels):
    return (pixels + pixels).to(torch.int16)


def program():
    return double_and_widen, (torch.tensor([1, 127, 128, 200, 255], dtype=torch.uint8),)
