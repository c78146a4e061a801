# The order of the augmentations is drawn anew in each step.
import random

import torch


@torch.compile(backend="aot_eager")
def augment(x):
    order = [0, 1, 2, 3, 4, 5]
    random.shuffle(order)
    return x[order], random.sample(range(100), 3)


random.seed(7)
for _ in range(3):
    y, picked = augment(torch.arange(6))
    print(y.tolist(), picked)
print(random.random())
