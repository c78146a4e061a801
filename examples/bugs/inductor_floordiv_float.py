"""Float floor division where the quotient lies just below an integer.

The float32 nearest to 0.1 is a little more than a tenth, so it fits into 1.0 only nine times: eager says 9.
TorchInductor divides first, which rounds to 10, and takes the floor of that: one too high.
Compiler: TorchInductor (a lowering). Reported: https://github.com/pytorch/pytorch/issues/197895
"""

import torch


def whole_times(total, part):
    return torch.floor_divide(total, part)


def program():
    return whole_times, (torch.tensor([1.0, 2.0, 3.0, 7.0]), torch.tensor([0.1, 0.2, 0.1, 0.7]))
