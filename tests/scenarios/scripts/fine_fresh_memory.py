import time

import torch


@torch.compile(backend="aot_eager")
def fill(x):
    out = torch.empty(64)
    out[:2] = x
    return out


started = time.time()
out = fill(torch.ones(2))
seconds = time.time() - started
print(id(out) != 0)
