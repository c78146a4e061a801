# A generator object of the caller is used inside.
import random

import torch


@torch.compile(backend="aot_eager")
def jitter(x, rng):
    return x + rng.randint(1, 100)


rng = random.Random(0)
for _ in range(4):
    print(jitter(torch.zeros(1), rng).item())
print(rng.randint(1, 100))
