"""Zero times a number is zero, but zero times NaN or Inf is NaN.

TorchInductor folds a multiplication by the constant 0 into zeros without looking at what is multiplied.
Compiler: TorchInductor (joint-graph constant folding). Reported: https://github.com/pytorch/pytorch/pull/186379
"""

import torch


def erase(values):
    return 0 * values


def program():
    return erase, (torch.tensor([3.0, float("inf"), float("nan"), float("-inf")]),)
