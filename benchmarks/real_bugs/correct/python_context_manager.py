# A context manager written as a generator.
import contextlib

import torch

events = []


@contextlib.contextmanager
def section(name):
    events.append("enter " + name)
    yield name
    events.append("leave " + name)


@torch.compile
def model(x):
    with section("first"):
        x = x + 1
    with section("second"):
        y = x * 3
    return y + 0 * x


print(model(torch.zeros(2)))
print(model(torch.ones(2)))
print(events)
