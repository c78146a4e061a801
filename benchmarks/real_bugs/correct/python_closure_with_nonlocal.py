# A counter in an enclosing function.
import torch


def make():
    total = 0

    @torch.compile
    def add(x, by):
        nonlocal total
        total += by
        return x + total

    return add, lambda: total


add, total = make()
for by in (1, 2, 3):
    print(add(torch.zeros(2), by), total())
