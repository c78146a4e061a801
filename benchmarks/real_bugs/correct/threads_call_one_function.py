# Four threads call the same compiled function, one after the other has compiled it.
import threading

import torch


@torch.compile
def work(x, k):
    return (x * k).sum()


work(torch.ones(3), torch.tensor(1.0))
results = {}


def run(k):
    results[k] = work(torch.arange(3.0), torch.tensor(float(k))).item()


threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(sorted(results.items()))
