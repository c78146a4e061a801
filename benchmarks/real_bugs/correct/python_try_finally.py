# The depth goes back to what it was, also after an early return.
import torch


class Depth:
    value = 0


def descend(depth, x, stop):
    depth.value += 1
    try:
        if stop:
            return x - 1
        x = x * 2
    finally:
        depth.value -= 1
    return x + 1


compiled = torch.compile(descend)
depth = Depth()
for stop in (False, True):
    print(compiled(depth, torch.ones(2), stop), depth.value)
