# One is added when the number of rows is even.
import torch


@torch.compile(dynamic=True)
def parity(x):
    return x + float(x.shape[0] % 2 == 0)


print(parity(torch.zeros(6, 2))[0])
print(parity(torch.zeros(5, 2))[0])
