# First called with two separate tensors, later with two windows on one buffer.
import torch


@torch.compile(backend="aot_eager")
def scale_and_sum(a, b):
    a.mul_(3)
    return a + b


print("separate:", scale_and_sum(torch.ones(4), torch.ones(4)))

signal = torch.ones(10)
print("overlapping:", scale_and_sum(signal[:4], signal[2:6]))
print("signal:", signal)
