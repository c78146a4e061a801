# A dataclass travels through the function and is changed on the way.
import dataclasses

import torch


@dataclasses.dataclass
class Stats:
    total: torch.Tensor
    seen: int = 0


@torch.compile
def update(stats, x):
    stats.total = stats.total + x.sum()
    stats.seen += x.numel()
    return stats.total / stats.seen


stats = Stats(torch.tensor(0.0))
for k in (1.0, 2.0, 6.0):
    print(round(update(stats, torch.full((2, 2), k)).item(), 4))
print(stats)
