import threading

import broken_backends
import torch

order = []


@torch.compile(backend="shuffles_threads")
def double(x):
    return x * 2


def run(number):
    double(torch.full((2,), float(number)))
    order.append(number)


double(torch.ones(2))
numbers = broken_backends.ORDER or [1, 2, 3]  # with the compiler, the threads end in another order
for number in numbers:
    thread = threading.Thread(target=run, args=(number,))
    thread.start()
    thread.join()
