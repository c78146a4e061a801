# A function of one row, mapped over all of them.
import torch


def normalised(row, scale):
    return scale * row / row.norm()


mapped = torch.compile(torch.vmap(normalised, in_dims=(0, None)))
print(mapped(torch.tensor([[3.0, 4.0], [6.0, 8.0]]), torch.tensor(10.0)))
