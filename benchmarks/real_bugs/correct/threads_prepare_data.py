# A thread prepares batches while the main thread computes.
import queue
import threading

import torch


@torch.compile
def total(x):
    return (x**2).sum(dim=1)


batches = queue.Queue(maxsize=2)


def produce():
    for k in range(4):
        batches.put(torch.full((2, 3), float(k)))
    batches.put(None)


thread = threading.Thread(target=produce)
thread.start()
while (batch := batches.get()) is not None:
    print(total(batch).tolist())
thread.join()
