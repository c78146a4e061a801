import random

import numpy as np
import torch


@torch.compile(backend="aot_eager")
def noisy(x):
    return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x), random.random()


for _ in range(3):
    noisy(torch.ones(8))
np.random.seed(3)
print("drawn", np.random.rand(2).shape)
