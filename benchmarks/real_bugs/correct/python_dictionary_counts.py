# A dictionary of counters, changed in each call.
import torch

counts = {}


@torch.compile
def step(x, name):
    counts[name] = counts.get(name, 0) + 1
    return x + counts[name]


x = torch.zeros(2)
for name in ("a", "b", "a", "a"):
    x = step(x, name)
print(x, counts)
