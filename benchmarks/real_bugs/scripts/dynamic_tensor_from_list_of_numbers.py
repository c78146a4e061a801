# A tensor made of the numbers in a list, with other numbers each time.
import torch


@torch.compile(backend="aot_eager")
def pack(values):
    return torch.Tensor(values) * 2


for values in ([1, 2], [3, 4], [5, 60]):
    print(pack(values))
