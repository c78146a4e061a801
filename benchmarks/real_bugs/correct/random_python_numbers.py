# Numbers of Python's own generator, seeded outside.
import random

import torch


@torch.compile
def jitter(x):
    return x + random.random(), random.randint(1, 6)


random.seed(2)
for _ in range(3):
    y, n = jitter(torch.zeros(1, dtype=torch.float64))
    print(round(y.item(), 6), n)
