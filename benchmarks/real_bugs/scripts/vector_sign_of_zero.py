# The sign of a zero decides on which side of the cut an angle lies.
import math

import torch
import torch.nn.functional as F


@torch.compile
def branch(x):
    y = F.elu(x) + 0.0 * x
    return torch.atan2(y, torch.full_like(y, -1.0)), torch.copysign(torch.ones_like(y), F.elu(x))


angle, sign = branch(torch.tensor([-0.0, 0.0] * 8))
print([round(a / math.pi, 2) for a in angle[:2].tolist()], sign[:2].tolist())
