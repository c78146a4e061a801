# A global list read by index, and changed between the calls by the caller.
import torch

WEIGHTS = [1.0, 2.0]


@torch.compile
def weigh(x):
    return sum(w * x for w in WEIGHTS), len(WEIGHTS)


print(weigh(torch.ones(2)))
WEIGHTS.append(4.0)
print(weigh(torch.ones(2)))
WEIGHTS[0] = 10.0
print(weigh(torch.ones(2)))
