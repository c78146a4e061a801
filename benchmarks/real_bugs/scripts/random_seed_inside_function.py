# Seeds Python's generator inside, to get the same numbers each time.
import random

import torch


@torch.compile(backend="aot_eager")
def jitter(x):
    random.seed(11)
    return x + random.random(), random.randint(0, 1000)


for _ in range(3):
    y, n = jitter(torch.zeros(1))
    print(y.tolist(), n)
